"""Bodies, patches and server-side apply through the real server: what is refused, what is warned about, who owns what."""

import re
import shutil
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.apiserver import Answer, TestServer, running_apiserver

MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
JSON, MERGE = "application/json-patch+json", "application/merge-patch+json"
STRATEGIC, APPLY = "application/strategic-merge-patch+json", "application/apply-patch+yaml"
HANDLED = 'Deployment in version "v1" cannot be handled as a Deployment: '

needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    async with running_apiserver() as running:
        yield running


def config_map(name: str, **data: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def deployment(**spec: Any) -> dict[str, Any]:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "busybox:1"}]}}
    body = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": body}


async def patch(server: TestServer, path: str, body: Any, content_type: str) -> Answer:
    return await server.request("PATCH", path, body, content_type=content_type)


async def test_bodies_that_are_refused(server: TestServer) -> None:
    wrong = await server.request("POST", DEPLOYMENTS, deployment(replicas="three"))
    assert (wrong.status, wrong.json["reason"]) == (400, "BadRequest")
    unmarshal = "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"
    assert wrong.json["message"] == HANDLED + unmarshal
    broken = await server.request("POST", DEPLOYMENTS, b'{"kind": "Deployment", ')
    assert broken.status == 400
    assert "json parse error: unexpected end of JSON input" in broken.json["message"]
    elsewhere = await server.request("POST", DEPLOYMENTS, config_map("x"))
    assert elsewhere.json["message"] == "the API version in the data (v1) does not match the expected API version (apps/v1)"
    yaml = await server.request("POST", MAPS, b"a: b: c", content_type="application/yaml")
    assert yaml.status == 400
    assert "yaml: line 1: mapping values are not allowed in this context" in yaml.json["message"]


async def test_unknown_and_repeated_fields(server: TestServer) -> None:
    body = b'{"metadata": {"name": "m"}, "data": {"a": "1", "a": "2"}, "foo": {}}'
    strict = await server.request("POST", MAPS + "?fieldValidation=Strict", body)
    assert strict.status == 400
    assert strict.json["message"].endswith('strict decoding error: unknown field "foo", duplicate field "data.a"')
    warned = await server.request("POST", MAPS, body)
    assert warned.status == 201
    assert warned.headers.getall("Warning") == ['299 - "unknown field \\"foo\\""', '299 - "duplicate field \\"data.a\\""']
    assert warned.json["data"] == {"a": "2"}
    assert "foo" not in warned.json
    ignored = await server.request("PUT", MAPS + "/m?fieldValidation=Ignore", body)
    assert "Warning" not in ignored.headers


async def test_each_kind_of_patch(server: TestServer) -> None:
    await server.request("POST", DEPLOYMENTS, deployment())
    web = DEPLOYMENTS + "/web"
    sidecar = {"spec": {"template": {"spec": {"containers": [{"name": "sidecar", "image": "busybox:1"}]}}}}
    merged = (await patch(server, web, sidecar, STRATEGIC)).json
    assert [each["name"] for each in merged["spec"]["template"]["spec"]["containers"]] == ["sidecar", "c"]
    replaced = (await patch(server, web, sidecar, MERGE)).json
    assert [each["name"] for each in replaced["spec"]["template"]["spec"]["containers"]] == ["sidecar"]
    scaled = (await patch(server, web, [{"op": "replace", "path": "/spec/replicas", "value": 4}], JSON)).json
    assert scaled["spec"]["replicas"] == 4
    failed = await patch(server, web, [{"op": "test", "path": "/spec/replicas", "value": 1}], JSON)
    assert (failed.status, failed.json["message"]) == (422, "the server rejected our request due to an error in our request")
    senseless = await patch(server, web, {"spec": {"$patch": "dance"}}, STRATEGIC)
    assert senseless.status == 400
    unknown = await patch(server, web, {}, "application/x-patch")
    assert unknown.status == 415


async def test_apply_owns_conflicts_forces_and_gives_back(server: TestServer) -> None:
    path = MAPS + "/m?fieldManager="
    first = await patch(server, path + "one", config_map("m", a="1", b="1"), APPLY)
    assert first.status == 201
    same = await patch(server, path + "one", config_map("m", a="1", b="1"), APPLY)
    assert same.json["metadata"]["resourceVersion"] == first.json["metadata"]["resourceVersion"]
    conflict = await patch(server, path + "two", config_map("m", a="2"), APPLY)
    assert (conflict.status, conflict.json["reason"]) == (409, "Conflict")
    assert conflict.json["message"] == 'Apply failed with 1 conflict: conflict with "one": .data.a'
    forced = await patch(server, path + "two&force=true", config_map("m", a="2"), APPLY)
    assert forced.json["data"] == {"a": "2", "b": "1"}
    less = await patch(server, path + "one", config_map("m"), APPLY)
    assert less.json["data"] == {"a": "2"}
    unnamed = await patch(server, MAPS + "/m", config_map("m"), APPLY)
    assert unnamed.status == 422
    unknown = await patch(server, path + "one", {**config_map("m"), "foo": 1}, APPLY)
    assert unknown.json["message"].endswith("(/m; /v1, Kind=ConfigMap): .foo: field not declared in schema")


async def test_apply_of_a_status_owns_the_status_alone(server: TestServer) -> None:
    await server.request("POST", DEPLOYMENTS, deployment())
    config = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 9}, "status": {"replicas": 3}}
    answer = await patch(server, DEPLOYMENTS + "/web/status?fieldManager=x", config, APPLY)
    assert (answer.json["spec"]["replicas"], answer.json["status"]["replicas"]) == (1, 3)
    entry = next(each for each in answer.json["metadata"]["managedFields"] if each["manager"] == "x")
    assert (entry["subresource"], entry["fieldsV1"]) == ("status", {"f:status": {"f:replicas": {}}})


async def test_writes_that_change_nothing_are_not_written(server: TestServer) -> None:
    created = (await server.request("POST", MAPS, config_map("m", a="1", b="2"))).json
    shuffled = {key: created[key] for key in reversed(created)}
    shuffled["data"] = {"b": "2", "a": "1"}
    again = (await server.request("PUT", MAPS + "/m", shuffled)).json
    assert again["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]


@needs_kubectl
async def test_kubectl_explains_validates_and_moves_between_both_kinds_of_apply(server: TestServer) -> None:
    code, out, err = await server.kubectl("explain", "deployment.spec.strategy.rollingUpdate")
    assert (code, err) == (0, "")
    assert re.search(r"^ +maxSurge\s+<(string|IntOrString)>$", out, re.M)  # by OpenAPI v2 (older clients) and v3
    manifest = (
        "apiVersion: v1\nkind: Service\nmetadata: {name: dns}\nspec:\n  selector: {a: b}\n"
        "  ports: [{name: t, port: 53, protocol: TCP}, {name: u, port: 53, protocol: UDP}]\n"
    )
    assert (await server.kubectl("apply", "-f", "-", stdin=manifest))[0] == 0
    assert "unchanged" in (await server.kubectl("apply", "-f", "-", stdin=manifest))[1]
    code, out, err = await server.kubectl("apply", "--server-side", "-f", "-", stdin=manifest)
    assert (code, out) == (0, "service/dns serverside-applied\n"), err
    code, out, _ = await server.kubectl("get", "service", "dns", "-o", "jsonpath={.spec.ports[*].protocol}")
    assert out == "TCP UDP"
    code, _, err = await server.kubectl("apply", "-f", "-", stdin=manifest.replace("selector", "selektor"))
    assert code == 1
    # asked of the server by newer clients; older ones look it up in OpenAPI v2 themselves
    assert re.search(
        r'strict decoding error: unknown field "spec.selektor"|ValidationError\(Service.spec\): unknown field "selektor"', err
    )
    code, _, err = await server.kubectl("create", "-f", "-", stdin="apiVersion: v1\nkind: Foo\nmetadata: {name: x}\n")
    assert code == 1
    assert 'no matches for kind "Foo" in version "v1"' in err
