"""Input made to cost much, to be read as something else, or to reach what its author may not."""

import json
import time

import pytest

from tests.support.apiserver import TestServer

MAPS = "/api/v1/namespaces/default/configmaps"
YAML = "application/yaml"
BOMB = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nx0: &x0 [a,a,a,a,a,a,a,a,a]\n" + "".join(
    f"x{n}: &x{n} [{','.join([f'*x{n - 1}'] * 9)}]\n" for n in range(1, 12)
)
DEEP = "[" * 200_000
QUOTED = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a: " + "'" * 99_999


@pytest.mark.parametrize("body", [BOMB, DEEP, QUOTED], ids=["aliases", "depth", "quotes"])
@pytest.mark.parametrize("kind", [YAML, "application/json"])
async def test_bombs_cost_nothing(server: TestServer, body: str, kind: str) -> None:
    """CVE-2019-11253, CVE-2019-11254."""
    started = time.monotonic()
    answer = await server.request("POST", MAPS, body, content_type=kind)
    assert answer.status in (400, 413, 422)
    assert time.monotonic() - started < 3  # most of it is a busy machine
    assert len(answer.body) < 10_000


@pytest.mark.parametrize("count", [10_001, 200_000])
async def test_patches_have_a_bound(server: TestServer, count: int) -> None:
    """CVE-2019-1002100."""
    await server.request("POST", MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "b"}})
    patch = json.dumps([{"op": "test", "path": "/data/a", "value": "b"}] * count)
    if len(patch) > 3 << 20:
        patch = "[" + '{"op":"test"},' * 200_000 + "{}]"
    answer = await server.request("PATCH", f"{MAPS}/a", patch, content_type="application/json-patch+json")
    assert answer.status in (413, 422)


async def test_patches_do_not_multiply(server: TestServer) -> None:
    await server.request(
        "POST", MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "b" * 999}}
    )
    patch = [{"op": "copy", "from": "/data", "path": f"/data/x{n}"} for n in range(60)]
    started = time.monotonic()
    answer = await server.request("PATCH", f"{MAPS}/a", patch, content_type="application/json-patch+json")
    assert answer.status in (400, 413, 422)
    assert time.monotonic() - started < 3


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/namespaces/default/nodes", 404),
        ("/api/v1/namespaces/default/nodes/node-1", 404),
        ("/apis/rbac.authorization.k8s.io/v1/namespaces/default/clusterroles/cluster-admin", 404),
        ("/api/v1/namespaces/..%2fkube-system/secrets", 400),
        ("/api/v1/namespaces/../secrets", 400),
        ("/api/v1/namespaces/default%00/secrets", 400),
        ("/api/v1/namespaces/default/secrets%2f..%2fconfigmaps", 400),
        ("/api/v1/namespaces/default//secrets", 404),
        ("/api/v1/configmaps/../secrets", 400),
    ],
)
async def test_paths_lead_nowhere_else(server: TestServer, path: str, status: int) -> None:
    """CVE-2019-11247, CVE-2022-3162 and the namespace traversal of the audit of 2023."""
    answer = await server.request("GET", path)
    assert answer.status in {status, 400, 404}
    assert b'"items"' not in answer.body
    assert b"cluster-admin" not in answer.body or answer.status == 404


@pytest.mark.parametrize("namespace", ["..", "a/b", "UPPER", "a%20b", "a\x00b", "x" * 64])
async def test_namespaces_have_names(server: TestServer, namespace: str) -> None:
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    assert (await server.request("POST", "/api/v1/namespaces", made)).status == 422


@pytest.mark.parametrize("path", ["/debug/pprof/", "/debug/flags/v", "/debug/", "/metrics", "/logs/", "/swagger-ui"])
@pytest.mark.parametrize("token", [None, "viewer-token"])
async def test_nobody_looks_inside(server: TestServer, path: str, token: str | None) -> None:
    """CVE-2019-11248."""
    assert (await server.request("GET", path, token=token)).status in (401, 403, 404)


async def test_strangers_do_not_fill_the_metrics(server: TestServer) -> None:
    """CVE-2020-8552: what clients make up becomes no label."""
    for number in range(50):
        await server.request("GET", f"/apis/made-up-{number}/v1/things-{number}")
        await server.request(f"VERB{number}", "/api/v1/pods")
        await server.request("GET", f"/api/v1/namespaces/default/pods?{'a' * 500}{number}=1&labelSelector={number}")
    text = (await server.request("GET", "/metrics")).body.decode()
    assert "made-up" not in text
    assert "things-" not in text
    assert "VERB" not in text


@pytest.mark.parametrize("header", ["X-Remote-User", "X-Remote-Group", "X-Remote-Extra-Scopes"])
async def test_headers_of_proxies_are_not_believed(server: TestServer, header: str) -> None:
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = await server.request("POST", path, body, token="viewer-token", headers={header: "system:masters"})
    info = answer.json["status"]["userInfo"]
    assert info["username"] == "nobody-special"
    assert "system:masters" not in json.dumps(info)
