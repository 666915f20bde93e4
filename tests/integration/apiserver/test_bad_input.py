"""Input that nobody should send: each gets upstream's code and a sentence, and the server goes on."""

import asyncio
import time
from typing import Any

import pytest

from tests.support.apiserver import TestServer

MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MAP: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
JSON, YAML = "application/json", "application/yaml"

CASES: list[Any] = [
    pytest.param("POST", MAPS, "{not json", JSON, 400, "BadRequest", "invalid character", id="malformed-json"),
    pytest.param("POST", MAPS, "a: [1", YAML, 400, "BadRequest", "", id="malformed-yaml"),
    pytest.param("POST", MAPS, "[]", JSON, 400, "BadRequest", "cannot unmarshal array", id="not-an-object"),
    pytest.param("POST", MAPS, "", JSON, 400, "BadRequest", "", id="empty-body"),
    pytest.param("GET", "/api/v1/namespaces/default/nonsense", None, JSON, 404, "NotFound", "could not find", id="unknown-kind"),
    pytest.param("GET", "/apis/example.com/v1/things", None, JSON, 404, "NotFound", "could not find", id="unknown-group"),
    pytest.param("PUT", MAPS, MAP, JSON, 405, "MethodNotAllowed", "does not allow this method", id="put-on-a-collection"),
    pytest.param(
        "PATCH", MAPS, {}, "application/merge-patch+json", 405, "MethodNotAllowed", "does not allow", id="patch-on-a-collection"
    ),
    pytest.param("GET", "/nonsense", None, JSON, 404, "NotFound", "could not find", id="unknown-path"),
    pytest.param(
        "POST", MAPS, {**MAP, "kind": "Foo"}, JSON, 400, "BadRequest", 'no kind "Foo" is registered', id="kind-unknown-to-all"
    ),
    pytest.param(
        "POST", MAPS, {**MAP, "kind": "Pod"}, JSON, 400, "BadRequest", "cannot be handled as a ConfigMap", id="other-kind"
    ),
    pytest.param(
        "POST", MAPS, {**MAP, "data": {"a": 1}}, JSON, 400, "BadRequest", "cannot unmarshal number", id="wrong-type-in-map"
    ),
    pytest.param(
        "POST",
        DEPLOYMENTS,
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {"replicas": "three"}},
        JSON,
        400,
        "BadRequest",
        "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
        id="wrong-type",
    ),
    pytest.param(
        "POST",
        DEPLOYMENTS,
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {}},
        JSON,
        422,
        "Invalid",
        "spec.selector: Required value",
        id="missing-field",
    ),
    pytest.param(
        "POST", MAPS, {**MAP, "metadata": {"name": "UPPER"}}, JSON, 422, "Invalid", "metadata.name: Invalid value", id="bad-name"
    ),
    pytest.param("POST", MAPS, {**MAP, "metadata": {}}, JSON, 422, "Invalid", "name or generateName is required", id="no-name"),
    pytest.param(
        "POST",
        MAPS,
        {**MAP, "metadata": {"name": "a", "labels": {"a b": "c"}}},
        JSON,
        422,
        "Invalid",
        "metadata.labels",
        id="label",
    ),
    pytest.param(
        "POST", MAPS, "x" * (3 * 1024 * 1024 + 1), JSON, 413, "RequestEntityTooLarge", "limit is 3145728", id="too-large"
    ),
    pytest.param("POST", MAPS, "x", "text/csv", 415, "UnsupportedMediaType", "accepted media types", id="media-type"),
    pytest.param("PATCH", f"{MAPS}/a", "{}", JSON, 415, "UnsupportedMediaType", "merge-patch", id="patch-media-type"),
    pytest.param("GET", f"{MAPS}?resourceVersion=abc", None, JSON, 400, "BadRequest", "", id="bad-version"),
    pytest.param(
        "GET", f"{MAPS}?labelSelector=a%20b%20c", None, JSON, 400, "BadRequest", "unable to parse requirement", id="selector"
    ),
    pytest.param(
        "GET", f"{MAPS}?fieldSelector=data%3Da", None, JSON, 400, "BadRequest", "not a known field selector", id="field"
    ),
    pytest.param(
        "GET",
        "/api/v1/nodes?fieldSelector=metadata.namespace%3Da",
        None,
        JSON,
        400,
        "BadRequest",
        "field label not supported: metadata.namespace",
        id="field-of-no-namespace",
    ),
    pytest.param("GET", f"{MAPS}?limit=many", None, JSON, 400, "BadRequest", "ParseInt", id="limit"),
    pytest.param("GET", f"{MAPS}?continue=nonsense", None, JSON, 400, "BadRequest", "continue key is not valid", id="continue"),
    pytest.param(
        "GET", f"{MAPS}?resourceVersionMatch=Exact", None, JSON, 422, "Invalid", "forbidden unless resourceVersion", id="match"
    ),
    pytest.param("POST", f"{MAPS}?dryRun=Some", MAP, JSON, 422, "Invalid", "dryRun: Unsupported value", id="dry-run"),
    pytest.param(
        "POST", f"{MAPS}?fieldValidation=Sloppy", MAP, JSON, 422, "Invalid", "fieldValidation: Unsupported value", id="validation"
    ),
    pytest.param(
        "POST",
        MAPS,
        {**MAP, "metadata": {"name": "a", "namespace": "other"}},
        JSON,
        400,
        "BadRequest",
        "the namespace of the provided object does not match the namespace sent on the request",
        id="other-namespace",
    ),
    pytest.param(
        "PUT",
        f"{MAPS}/b",
        MAP,
        JSON,
        400,
        "BadRequest",
        "the name of the object (a) does not match the name on the URL (b)",
        id="other-name",
    ),
    pytest.param("GET", f"{MAPS}/..", None, JSON, 400, "BadRequest", "may not be '..'", id="dots"),
    pytest.param("GET", f"{MAPS}/%2e%2e", None, JSON, 400, "BadRequest", "may not be '..'", id="encoded-dots"),
    pytest.param("GET", f"{MAPS}/a%2fb", None, JSON, 400, "BadRequest", "may not contain '/'", id="encoded-slash"),
    pytest.param("GET", f"{MAPS}/a%00b", None, JSON, 400, "BadRequest", "control characters", id="nul"),
    pytest.param(
        "GET", "/api/v1/namespaces/%2e%2e/configmaps/a", None, JSON, 400, "BadRequest", "may not be '..'", id="namespace"
    ),
    pytest.param(
        "POST", "/api/v1/namespaces/nowhere/configmaps", MAP, JSON, 404, "NotFound", 'namespaces "nowhere" not found', id="ns"
    ),
    pytest.param(
        "POST", "/api/v1/configmaps", MAP, JSON, 405, "MethodNotAllowed", "does not allow this method", id="no-namespace"
    ),
    pytest.param("POST", f"{MAPS}/a", MAP, JSON, 405, "MethodNotAllowed", "does not allow this method", id="post-to-a-name"),
    pytest.param("DELETE", f"{MAPS}/none", None, JSON, 404, "NotFound", 'configmaps "none" not found', id="delete-nothing"),
    pytest.param("GET", f"{MAPS}/a/status", None, JSON, 404, "NotFound", "could not find", id="no-such-subresource"),
]


@pytest.mark.parametrize(("method", "path", "body", "content_type", "code", "reason", "text"), CASES)
async def test_refusals(
    server: TestServer, method: str, path: str, body: Any, content_type: str, code: int, reason: str, text: str
) -> None:
    before = await server.running.backend.current_revision()
    answer = await server.request(method, path, body, content_type=content_type)
    assert (answer.status, answer.json["reason"], answer.json["code"]) == (code, reason, code), answer.json["message"]
    assert answer.json["kind"] == "Status"
    assert text in answer.json["message"]
    assert await server.running.backend.current_revision() == before, "nothing may be written"
    assert (await server.request("GET", "/readyz")).status == 200


async def test_unknown_fields_warn_by_default(server: TestServer) -> None:
    answer = await server.request("POST", MAPS, {**MAP, "foo": 1})
    assert answer.status == 201
    assert answer.headers["Warning"] == '299 - "unknown field \\"foo\\""'
    assert "foo" not in answer.json


async def test_unknown_and_duplicate_fields_are_errors_when_strict(server: TestServer) -> None:
    body = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{},"data":{},"foo":1}'
    answer = await server.request("POST", f"{MAPS}?fieldValidation=Strict", body)
    assert answer.status == 400
    assert 'strict decoding error: unknown field "foo", duplicate field "data"' in answer.json["message"]


async def test_types_nobody_accepts_are_406(server: TestServer) -> None:
    answer = await server.request("GET", MAPS, headers={"Accept": "text/csv"})
    assert (answer.status, answer.json["reason"]) == (406, "NotAcceptable")


async def test_a_body_without_a_length_is_bounded_too(server: TestServer) -> None:
    async def endless() -> Any:
        for _ in range(400):
            yield b" " * 10_000

    from yarl import URL

    headers = {"Authorization": f"Bearer {server.admin_token}", "Content-Type": JSON}
    target = URL(server.url + MAPS)
    async with server.session.post(target, data=endless(), headers=headers, ssl=server.tls) as answer:
        assert answer.status == 413


@pytest.mark.parametrize("how", ["post", "apply"])
async def test_a_large_body_holds_up_nobody(server: TestServer, how: str) -> None:
    """YAML is slow to read: that happens beside the loop, not on it. Judged by CPU time, which a busy machine leaves alone."""
    gaps: list[float] = []

    async def ticker() -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            gaps.append(now - last)
            last = now

    ticking = asyncio.ensure_future(ticker())
    items = "".join("    - x\n" for _ in range(60_000))
    body = f"apiVersion: v1\nkind: Strange\nmetadata:\n  name: big\n  finalizers:\n{items}"
    before = time.process_time() - time.thread_time()
    if how == "post":
        answer = await server.request("POST", MAPS, body, content_type="application/yaml")
    else:
        answer = await server.request("PATCH", f"{MAPS}/big?fieldManager=m", body, content_type="application/apply-patch+yaml")
    beside = time.process_time() - time.thread_time() - before
    ticking.cancel()
    assert answer.status == 400
    assert max(gaps) < beside


SPECIAL = {
    "127.0.0.1": "loopback range",
    "::1": "loopback range",
    "::ffff:127.0.0.1": "loopback range",
    "169.254.169.254": "link-local range",
    "fe80::1": "link-local range",
    "::ffff:169.254.169.254": "link-local range",
    "0.0.0.0": "may not be unspecified",
    "224.0.0.1": "link-local multicast range",
}


@pytest.mark.parametrize(("address", "text"), SPECIAL.items())
async def test_endpoints_lead_to_no_machine_of_its_own(server: TestServer, address: str, text: str) -> None:
    """Else whoever may write endpoints reaches what listens on the loopback addresses of nodes."""
    kind = "IPv6" if ":" in address else "IPv4"
    slice_ = {"metadata": {"name": "a"}, "addressType": kind, "endpoints": [{"addresses": [address]}]}
    endpoints = {"metadata": {"name": "a"}, "subsets": [{"addresses": [{"ip": address}], "ports": [{"port": 80}]}]}
    service = {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}], "externalIPs": [address]}}
    for path, body in (
        ("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice_),
        ("/api/v1/namespaces/default/endpoints", endpoints),
        ("/api/v1/namespaces/default/services", service),
    ):
        answer = await server.request("POST", path, body)
        assert (answer.status, text in answer.json["message"]) == (422, True), path
