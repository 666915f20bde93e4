"""Every door that discovery and the index of paths know, tried by strangers, by nobodies, and with tokens that are none."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jwt
import pytest

from component import x509
from tests.support.apiserver import TestServer, prepare, running_apiserver

OPEN = {"/healthz", "/livez", "/readyz", "/version"}
BODIES = {"POST": {}, "PUT": {}, "PATCH": {}}
# a user may ask about itself, whoever it is
OWN = ("selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews")
METHODS = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}


async def plain_paths(server: TestServer) -> list[str]:
    index = (await server.request("GET", "/")).json["paths"]
    documents = (await server.request("GET", "/openapi/v3")).json["paths"]
    probes = [f"/{probe}/{check}" for probe in ("healthz", "livez", "readyz") for check in ("ping", "etcd")]
    return ["/", "/nowhere", "/debug/pprof/", "/logs/", *index, *(f"/openapi/v3/{path}" for path in documents), *probes]


async def resource_requests(server: TestServer) -> list[tuple[str, str]]:
    """Method and path of each verb of each resource and subresource."""
    groups = (await server.request("GET", "/apis")).json["groups"]
    versions = ["/api/v1", *(f"/apis/{version['groupVersion']}" for group in groups for version in group["versions"])]
    found = []
    for base in versions:
        for resource in (await server.request("GET", base)).json["resources"]:
            found += list(_requests(base, resource))
    return found


def _requests(base: str, resource: dict[str, Any]) -> Iterator[tuple[str, str]]:
    name, _, subresource = resource["name"].partition("/")
    where = f"{base}/namespaces/default/{name}" if resource["namespaced"] else f"{base}/{name}"
    for verb in resource["verbs"]:
        collection = verb in ("list", "watch", "create", "deletecollection") and not subresource
        path = where if collection else f"{where}/some" + (f"/{subresource}" if subresource else "")
        yield METHODS[verb], path + ("?watch=1" if verb == "watch" else "")


async def ask(server: TestServer, method: str, path: str, token: str | None) -> int:
    return (await server.request(method, path, BODIES.get(method), token=token)).status


async def test_strangers_see_health_and_version_alone(server: TestServer) -> None:
    seen = {path for path in await plain_paths(server) if await ask(server, "GET", path, None) != 403}
    assert seen == OPEN
    opened = [(method, path) for method, path in await resource_requests(server) if await ask(server, method, path, None) != 403]
    assert opened == []


async def test_nobody_in_particular_sees_discovery_and_asks_about_itself(server: TestServer) -> None:
    for path in await plain_paths(server):
        status = await ask(server, "GET", path, "viewer-token")
        assert status == (200 if path in OPEN or path.startswith(("/api", "/openapi/")) else 403), path
    opened = {
        path.rsplit("/", 1)[-1]
        for method, path in await resource_requests(server)
        if await ask(server, method, path, "viewer-token") != 403
    }
    assert opened <= set(OWN)


async def test_without_anonymous_users_there_is_no_open_door(tmp_path: Path) -> None:
    identity = replace(prepare(tmp_path, "memory")[0].identity, anonymous=False)
    async with running_apiserver(directory=tmp_path, identity=identity) as server:
        for path in await plain_paths(server):
            assert await ask(server, "GET", path, None) == 401, path


def claims(**changes: Any) -> dict[str, Any]:
    now = int(time.time())
    about = {"namespace": "default", "serviceaccount": {"name": "robot", "uid": "x"}}
    return {
        "iss": "https://kubernetes.default.svc.cluster.local",
        "sub": "system:serviceaccount:default:robot",
        "aud": ["https://kubernetes.default.svc.cluster.local"],
        "iat": now - 10,
        "nbf": now - 10,
        "exp": now + 600,
        "kubernetes.io": about,
        **changes,
    }


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


async def real_token(server: TestServer) -> tuple[str, dict[str, Any]]:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
    await server.request("POST", "/api/v1/namespaces/default/serviceaccounts", account)
    wanted = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    made = await server.request("POST", "/api/v1/namespaces/default/serviceaccounts/robot/token", wanted)
    token = made.json["status"]["token"]
    return token, jwt.decode(token, options={"verify_signature": False})


async def test_tokens_that_are_none_are_401(server: TestServer) -> None:
    token, real = await real_token(server)
    assert await ask(server, "GET", "/apis", token) == 200
    key = (server.directory / "sa.key").read_bytes()
    header, body, signature = token.split(".")
    kid = jwt.get_unverified_header(token)["kid"]

    def signed(told: dict[str, Any], by: bytes = key) -> str:
        return jwt.encode(told, by, algorithm=jwt.get_unverified_header(token)["alg"], headers={"kid": kid})

    def by_public_key() -> str:
        """The old trick: the public key, known to all, as the secret of a symmetric signature."""
        secret = x509.public_key(key)
        text = f"{part({'alg': 'HS256', 'kid': kid})}.{part(real)}"
        made = base64.urlsafe_b64encode(hmac.new(secret, text.encode(), hashlib.sha256).digest()).rstrip(b"=").decode()
        return f"{text}.{made}"

    assert await ask(server, "GET", "/apis", signed(real)) == 200
    spoiled = {
        "expired": signed({**real, "exp": int(time.time()) - 5}),
        "not yet": signed({**real, "nbf": int(time.time()) + 600}),
        "without an end": signed({key: value for key, value in real.items() if key != "exp"}),
        "of another issuer": signed({**real, "iss": "https://elsewhere"}),
        "for another audience": signed({**real, "aud": ["elsewhere"]}),
        "of an account that is none": signed(claims()),
        "of nobody": signed({key: value for key, value in real.items() if key not in ("sub", "kubernetes.io")}),
        "by a foreign key": signed(real, x509.new_key()),
        "changed": f"{header}.{part({**real, 'sub': 'system:serviceaccount:kube-system:robot'})}.{signature}",
        "without a signature": f"{part({'alg': 'none'})}.{body}.",
        "by the public key": by_public_key(),
        "cut": token[:-4],
        "two parts": f"{header}.{body}",
        "dots": "..",
        "long": "a" * 20_000,
    }
    statuses = {name: await ask(server, "GET", "/apis", spoiled[name]) for name in spoiled}
    assert {name: status for name, status in statuses.items() if status != 401} == {}


COMPONENTS = [
    ("scheduler-token", "GET", "/api/v1/pods", True),
    ("scheduler-token", "GET", "/api/v1/secrets", False),
    ("scheduler-token", "DELETE", "/api/v1/nodes/n", False),
    ("scheduler-token", "POST", "/api/v1/namespaces/default/pods", False),
    ("controller-manager-token", "GET", "/api/v1/pods", True),
    ("controller-manager-token", "POST", "/api/v1/namespaces/kube-system/serviceaccounts/job-controller/token", True),
    ("controller-manager-token", "POST", "/apis/apps/v1/namespaces/default/replicasets", False),  # its controllers have accounts
    ("controller-manager-token", "POST", "/api/v1/namespaces/default/pods/p/exec?command=id", False),
    ("controller-manager-token", "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", False),
    ("proxy-token", "GET", "/apis/discovery.k8s.io/v1/endpointslices", True),
    ("proxy-token", "GET", "/api/v1/services", True),
    ("proxy-token", "GET", "/api/v1/secrets", False),
    ("proxy-token", "POST", "/api/v1/namespaces/default/services", False),
    ("node-token", "GET", "/api/v1/nodes/node-1", True),
    ("node-token", "GET", "/api/v1/secrets", False),
    ("node-token", "GET", "/api/v1/namespaces/default/secrets/some", False),
    ("node-token", "POST", "/apis/apps/v1/namespaces/default/deployments", False),
    ("node-token", "DELETE", "/api/v1/nodes/node-2", False),
    ("node-token", "GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles", False),
]


@pytest.mark.parametrize(("token", "method", "path", "may"), COMPONENTS)
async def test_components_may_what_they_need_and_no_more(
    server: TestServer, token: str, method: str, path: str, may: bool
) -> None:
    status = await ask(server, method, path, token)
    assert (status == 403) is not may, status
    assert status < 500
