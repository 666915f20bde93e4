"""Custom resources as clients meet them: from a definition's first moment to its last."""

import asyncio
import json
from typing import Any

from apimachinery.codecs import protobuf
from controlplane.apiserver.storage.encoding import encode
from controlplane.apiserver.storage.interface import Put
from tests.support.apiserver import TestServer
from tests.support.custom import DEFINITIONS, definition, established, gone, until, version, widget

Object = dict[str, Any]
ALL = "/apis/example.com/v1/widgets"
HERE = "/apis/example.com/v1/namespaces/default/widgets"
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"
PARTS: Object = {
    "subresources": {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    },
    "additionalPrinterColumns": [{"name": "Color", "type": "string", "jsonPath": ".spec.color"}],
    "selectableFields": [{"jsonPath": ".spec.color"}],
}


async def made(server: TestServer, name: str, **spec: Any) -> Object:
    answer = await server.request("POST", HERE, widget(name, **spec))
    assert answer.status == 201, answer.body
    found: Object = answer.json
    return found


async def test_objects_are_pruned_defaulted_and_judged(server: TestServer) -> None:
    assert (await server.request("GET", ALL)).status == 404
    await established(server, definition())
    found = await made(server, "a", size=1, unknown=2)
    assert found["spec"] == {"size": 1, "color": "red"}
    assert found["metadata"]["generation"] == 1
    strict = await server.request("POST", f"{HERE}?fieldValidation=Strict", widget("b", unknown=2))
    assert strict.status == 400
    text = 'Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown field "spec.unknown"'
    assert strict.json["message"] == text
    warned = await server.request("POST", f"{HERE}?dryRun=All", widget("b", unknown=2))
    assert warned.status == 201
    assert 'unknown field \\"spec.unknown\\"' in warned.headers["Warning"]
    wrong = await server.request("POST", HERE, widget("b", size=-1))
    assert wrong.status == 422
    assert wrong.json["details"]["causes"][0]["field"] == "spec.size"
    kind = await server.request("POST", HERE, widget("b", kind="Gadget"))
    assert (kind.status, kind.json["details"]["causes"][0]["field"]) == (422, "kind")
    listed = (await server.request("GET", ALL)).json
    assert listed["kind"] == "WidgetList"
    assert [(item["kind"], item["metadata"]["name"]) for item in listed["items"]] == [("Widget", "a")]


async def test_patches_and_apply_know_the_schema(server: TestServer) -> None:
    await established(server, definition())
    await made(server, "a", size=1)
    merged = await server.request("PATCH", f"{HERE}/a", {"spec": {"size": 2}}, content_type=MERGE)
    assert merged.json["metadata"]["generation"] == 2
    steps = [{"op": "replace", "path": "/spec/size", "value": 3}]
    stepped = await server.request("PATCH", f"{HERE}/a", steps, content_type="application/json-patch+json")
    assert stepped.json["spec"]["size"] == 3
    strategic = await server.request("PATCH", f"{HERE}/a", {}, content_type="application/strategic-merge-patch+json")
    assert strategic.status == 415
    for manager, name in (("one", "p"), ("two", "q")):
        config = {
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "metadata": {"name": "a"},
            "spec": {"parts": [{"name": name}]},
        }
        applied = await server.request("PATCH", f"{HERE}/a?fieldManager={manager}", json.dumps(config), content_type=APPLY)
        assert applied.status == 200, applied.body
    assert [part["name"] for part in applied.json["spec"]["parts"]] == ["p", "q"]
    unknown = await server.request(
        "PATCH", f"{HERE}/a?fieldManager=one", json.dumps({**config, "spec": {"bogus": 1}}), content_type=APPLY
    )
    assert ".spec.bogus: field not declared in schema" in unknown.json["message"]
    put = await server.request("PUT", f"{HERE}/a", widget("a"))
    assert "must be specified for an update" in put.json["message"]


async def test_subresources_columns_and_selectors(server: TestServer) -> None:
    await established(server, definition("widgets", "Widget", version(**PARTS)))
    found = await made(server, "a", replicas=2)
    assert "status" not in found
    path = f"{HERE}/a/status"
    await server.request("PATCH", path, {"spec": {"size": 9}, "status": {"replicas": 1, "selector": "a=b"}}, content_type=MERGE)
    scale = (await server.request("GET", f"{HERE}/a/scale")).json
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 1, "selector": "a=b"})
    await server.request("PATCH", f"{HERE}/a/scale", {"spec": {"replicas": 5}}, content_type=MERGE)
    now = (await server.request("GET", f"{HERE}/a")).json
    assert (now["spec"]["replicas"], now["metadata"]["generation"]) == (5, 2)
    assert "size" not in now["spec"]
    await made(server, "b", color="blue")
    chosen = (await server.request("GET", f"{HERE}?fieldSelector=spec.color%3Dblue")).json
    assert [item["metadata"]["name"] for item in chosen["items"]] == ["b"]
    assert (await server.request("GET", f"{HERE}?fieldSelector=spec.size%3D1")).status == 400
    table = (await server.request("GET", HERE, headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"})).json
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Color"]
    assert [row["cells"] for row in table["rows"]] == [["a", "red"], ["b", "blue"]]


async def test_every_version_shows_the_same_objects(server: TestServer) -> None:
    old = version("v1beta1", storage=False, deprecated=True)
    await established(server, definition("widgets", "Widget", version(), old))
    await made(server, "a", size=1)
    beta = await server.request("GET", "/apis/example.com/v1beta1/namespaces/default/widgets/a")
    assert (beta.json["apiVersion"], beta.json["spec"]["size"]) == ("example.com/v1beta1", 1)
    assert beta.headers["Warning"] == '299 - "example.com/v1beta1 Widget is deprecated"'
    group = (await server.request("GET", "/apis/example.com")).json
    assert [each["version"] for each in group["versions"]] == ["v1", "v1beta1"]
    spec = {"versions": [{**version(), "storage": False}, {**old, "storage": True}]}
    moved = await server.request("PATCH", f"{DEFINITIONS}/widgets.example.com", {"spec": spec}, content_type=MERGE)
    assert moved.json["status"]["storedVersions"] == ["v1", "v1beta1"]
    await made(server, "b", size=2)
    stored = server.running.backend
    held = {
        key: json.loads(found.value)
        for key in "ab"
        if (found := await stored.get(f"/registry/example.com/widgets/default/{key}"))
    }
    assert {key: obj["apiVersion"] for key, obj in held.items()} == {"a": "example.com/v1", "b": "example.com/v1beta1"}
    listed = (await server.request("GET", ALL)).json["items"]
    assert [(item["apiVersion"], item["spec"]["size"]) for item in listed] == [("example.com/v1", 1), ("example.com/v1", 2)]
    assert (await server.request("PUT", f"{HERE}/a", listed[0])).status == 200  # as it was, and therefore stored again
    again = await stored.get("/registry/example.com/widgets/default/a")
    assert again is not None
    assert json.loads(again.value)["apiVersion"] == "example.com/v1beta1"


async def test_what_is_stored_gets_the_defaults_of_today(server: TestServer) -> None:
    await established(server, definition())
    await made(server, "a")
    schema = json.loads(json.dumps(version()["schema"]))
    schema["openAPIV3Schema"]["properties"]["spec"]["properties"] = {"shape": {"type": "string", "default": "round"}}
    spec = {"versions": [{**version(), "schema": schema}]}
    await server.request("PATCH", f"{DEFINITIONS}/widgets.example.com", {"spec": spec}, content_type=MERGE)
    assert (await server.request("GET", f"{HERE}/a")).json["spec"] == {"shape": "round"}


async def test_kubectl_lives_with_them(server: TestServer) -> None:
    wanted = definition("widgets", "Widget", version(**PARTS), names={"shortNames": ["wd"], "categories": ["all"]})
    assert (await server.kubectl("apply", "-f", "-", stdin=json.dumps(wanted)))[0] == 0
    await until(server, "widgets.example.com", "Established")
    mine = json.dumps({**widget("a", color="green"), "metadata": {"name": "a", "namespace": "default"}})
    assert (await server.kubectl("apply", "-f", "-", stdin=mine))[1] == "widget.example.com/a created\n"
    assert (await server.kubectl("get", "wd"))[1].split() == ["NAME", "COLOR", "a", "green"]
    code, explained, _ = await server.kubectl("explain", "widgets.spec.size")
    assert (code, "FIELD: size <integer>" in explained) == (0, True)
    code, _, refused = await server.kubectl("create", "-f", "-", stdin=mine.replace('"color"', '"colour"').replace('"a"', '"b"'))
    assert (code, 'unknown field "spec.colour"' in refused) == (1, True)
    assert (await server.kubectl("delete", "crd", "widgets.example.com", "--timeout=20s"))[0] == 0
    assert (await server.request("GET", ALL)).status == 404


async def test_a_definition_takes_its_instances_with_it(server: TestServer) -> None:
    await established(server, definition())
    held = {**widget("held"), "metadata": {"name": "held", "finalizers": ["example.com/keep"]}}
    assert (await server.request("POST", HERE, held)).status == 201
    await made(server, "a")
    leaving = (await server.request("DELETE", f"{DEFINITIONS}/widgets.example.com")).json
    assert leaving["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    found = await until(server, "widgets.example.com", "Terminating")
    assert found["metadata"]["deletionTimestamp"]
    refused = await server.request("POST", HERE, widget("late"))
    assert (refused.status, refused.json["message"]) == (
        405,
        "create not allowed while custom resource definition is terminating",
    )
    assert [item["metadata"]["name"] for item in (await server.request("GET", ALL)).json["items"]] == ["held"]
    freed = await server.request("PATCH", f"{HERE}/held", {"metadata": {"finalizers": None}}, content_type=MERGE)
    assert freed.status == 200
    await gone(server, "widgets.example.com")
    assert (await server.request("GET", "/apis/example.com")).status == 404
    await established(server, definition())
    assert (await server.request("GET", ALL)).json["items"] == []


async def test_documents_follow_definitions(server: TestServer) -> None:
    path = "/openapi/v3/apis/example.com/v1"
    assert (await server.request("GET", path)).status == 404
    before = await server.request("GET", "/openapi/v2")
    await established(server, definition())
    with_it = await server.request("GET", "/openapi/v2")
    assert with_it.headers["ETag"] != before.headers["ETag"]
    assert with_it.json["definitions"]["com.example.v1.Widget"]["properties"]["spec"]["properties"]["color"]["default"] == "red"
    assert with_it.json["definitions"].keys() - before.json["definitions"].keys() == {
        "com.example.v1.Widget",
        "com.example.v1.WidgetList",
    }
    third = (await server.request("GET", path)).json
    assert "/apis/example.com/v1/namespaces/{namespace}/widgets" in third["paths"]
    service = await server.request("GET", "/apis/apiregistration.k8s.io/v1/apiservices/v1.example.com")
    assert service.json["metadata"]["labels"] == {"kube-aggregator.kubernetes.io/automanaged": "true"}
    await server.request("DELETE", f"{DEFINITIONS}/widgets.example.com")
    await gone(server, "widgets.example.com")
    assert (await server.request("GET", "/openapi/v2")).body == before.body
    assert (await server.request("GET", path)).status == 404


async def test_there_is_no_protobuf_but_for_metadata(server: TestServer) -> None:
    await established(server, definition("widgets", "Widget", version(**PARTS)))
    await made(server, "a", replicas=1)
    packed = "application/vnd.kubernetes.protobuf"
    part = f"{packed};as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    for path in (HERE, f"{HERE}/a", f"{HERE}?watch=1&timeoutSeconds=1"):
        refused = await server.request("GET", path, headers={"Accept": packed})
        assert (refused.status, refused.json["reason"]) == (406, "NotAcceptable")
        assert (await server.request("GET", path, headers={"Accept": f"{packed},application/json;q=0.9"})).status == 200
    assert (await server.request("POST", HERE, widget("b"), headers={"Accept": packed})).status == 406
    assert (await server.request("GET", f"{HERE}/b")).status == 404
    assert (await server.request("POST", HERE, b"k8s\x00", content_type=packed)).status == 415
    scale = await server.request("GET", f"{HERE}/a/scale", headers={"Accept": packed})
    assert protobuf.decode(scale.body)["spec"] == {"replicas": 1}
    meta = await server.request("GET", f"{HERE}/a", headers={"Accept": part})
    assert (meta.headers["Content-Type"], protobuf.decode(meta.body)["metadata"]["name"]) == (packed, "a")
    seen = await server.request("GET", f"{HERE}?watch=1&timeoutSeconds=1", headers={"Accept": part})
    assert seen.headers["Content-Type"] == f"{packed};stream=watch"
    assert b"\x05ADDED" in seen.body
    assert b"PartialObjectMetadata" in seen.body


async def test_replicas_can_be_applied(server: TestServer) -> None:
    await established(server, definition("widgets", "Widget", version(**PARTS)))
    await made(server, "a", replicas=1)
    config = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 2}}
    refused = await server.request("PATCH", f"{HERE}/a/scale?fieldManager=x", config, content_type=APPLY)
    assert [cause["field"] for cause in refused.json["details"]["causes"]] == [".spec.replicas"]
    forced = await server.request("PATCH", f"{HERE}/a/scale?fieldManager=x&force=true", config, content_type=APPLY)
    assert (forced.status, forced.json["spec"]) == (200, {"replicas": 2})
    managers = (await server.request("GET", f"{HERE}/a")).json["metadata"]["managedFields"]
    assert {"manager": "x", "operation": "Apply", "subresource": "scale"}.items() <= managers[0].items()
    assert managers[0]["fieldsV1"] == {"f:spec": {"f:replicas": {}}}


async def test_what_was_made_as_v1beta1_keeps_all_fields(server: TestServer) -> None:
    """Upstream has such definitions in its storage, where nothing asked for structural schemas."""
    schema = {"type": "object", "properties": {"spec": {"properties": {"size": {"type": "integer"}}}}}
    old = definition("widgets", "Widget", version(schema=schema), preserveUnknownFields=True)
    old["metadata"]["uid"] = "u"
    old["status"] = {"acceptedNames": {"plural": "", "kind": ""}, "storedVersions": ["v1"]}
    key = "/registry/apiextensions.k8s.io/customresourcedefinitions/widgets.example.com"
    assert (await server.running.backend.commit([], [Put(key, encode(old))])).revision
    found = await until(server, "widgets.example.com", "NonStructuralSchema")
    (said,) = [each for each in found["status"]["conditions"] if each["type"] == "NonStructuralSchema"]
    assert (said["reason"], said["message"]) == (
        "Violations",
        "[spec.preserveUnknownFields: Invalid value: true: must be false, "
        "spec.versions[0].schema.openAPIV3Schema.properties[spec].type: "
        "Required value: must not be empty for specified object fields]",
    )
    answer = await server.request("POST", f"{HERE}?fieldValidation=Strict", widget("a", size=1, more={"x": [1]}))
    assert (answer.status, answer.json["spec"]) == (201, {"size": 1, "more": {"x": [1]}})
    document = await server.request("GET", "/openapi/v2")
    assert "spec" not in document.json["definitions"]["com.example.v1.Widget"].get("properties", {})
    mended = {"spec": {"preserveUnknownFields": False, "versions": [version()]}}
    path = f"{DEFINITIONS}/widgets.example.com"
    assert (await server.request("PATCH", path, mended, content_type=MERGE)).status == 200
    for _ in range(500):
        if "NonStructuralSchema" not in str((await server.request("GET", path)).json["status"]):
            break
        await asyncio.sleep(0.02)
    else:
        raise AssertionError("the schemas are still called non-structural")
    assert (await server.request("GET", f"{HERE}/a")).json["spec"] == {"size": 1, "color": "red"}
