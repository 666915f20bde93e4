"""Documents of others beside ours: what is taken of them, what is called anew, and version 3 of version 2."""

from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from controlplane.apiserver.aggregation.openapi import NotOpenAPIError, merged_v2, part_of, v3_of
from controlplane.apiserver.openapi import gnostic

ROOT = "/apis/things.example/v1"


def reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/definitions/{name}"}


def operation(answer: str, **more: Any) -> dict[str, Any]:
    return {"operationId": "op", "responses": {"200": {"description": "OK", "schema": reference(answer)}}, **more}


DOCUMENT: dict[str, Any] = {
    "swagger": "2.0",
    "info": {"title": "Things", "version": "1"},
    "paths": {
        f"{ROOT}/widgets": {
            "get": operation("Widget", produces=["application/json"], tags=["a"], **{"x-kubernetes-action": "list"}),
            "post": operation(
                "Widget",
                consumes=["*/*"],
                parameters=[{"name": "body", "in": "body", "required": True, "schema": reference("Widget")}],
            ),
            "parameters": [{"name": "pretty", "in": "query", "type": "string", "uniqueItems": True, "description": "p"}],
        },
        f"{ROOT}beta/widgets": {"get": operation("Other")},
        "/version": {"get": operation("Version")},
    },
    "definitions": {
        "Widget": {"type": "object", "properties": {"meta": reference("Meta"), "more": {"additionalProperties": True}}},
        "Meta": {"type": "object", "properties": {"self": reference("Meta"), "gone": reference("Missing")}},
        "Version": {"type": "object"},
        "Other": {"type": "object"},
    },
}
OURS: dict[str, Any] = {
    "swagger": "2.0",
    "info": {"title": "Kubernetes", "version": "v1"},
    "paths": {"/api/v1/pods": {"get": operation("Meta")}},
    "definitions": {"Meta": {"type": "object", "description": "ours"}, "Meta_v2": {"type": "string"}},
}


def test_only_what_its_version_needs_is_taken() -> None:
    part = part_of(orjson.dumps(DOCUMENT), ROOT)
    assert list(part["paths"]) == [f"{ROOT}/widgets"]
    assert list(part["definitions"]) == ["Meta", "Widget"]


@pytest.mark.parametrize("body", [b"", b"[]", b'{"paths": 3}', b"{}"])
def test_what_is_no_document_is_refused(body: bytes) -> None:
    with pytest.raises(NotOpenAPIError):
        part_of(body, ROOT)


def test_what_is_nested_without_end_is_refused() -> None:
    deep = b'{"paths": {}, "definitions": {"A": ' + b'{"not": ' * 500 + b"{}" + b"}" * 502
    with pytest.raises(NotOpenAPIError, match="levels"):
        part_of(deep, ROOT)


def test_definitions_that_differ_get_a_name_of_their_own() -> None:
    merged = merged_v2(OURS, [part_of(orjson.dumps(DOCUMENT), ROOT)])
    assert merged["info"] == OURS["info"]
    assert merged["definitions"]["Meta"] == OURS["definitions"]["Meta"]
    assert merged["definitions"]["Meta_v3"]["properties"]["self"] == reference("Meta_v3")
    assert merged["definitions"]["Widget"]["properties"]["meta"] == reference("Meta_v3")
    assert merged["paths"]["/api/v1/pods"] == OURS["paths"]["/api/v1/pods"]
    assert b"things.example" in gnostic.encode(merged)


def kinds(*groups: str) -> dict[str, Any]:
    return {"x-kubernetes-group-version-kind": [{"group": group, "kind": "K", "version": "v1"} for group in groups]}


def test_what_differs_in_its_kinds_alone_is_said_once_for_all_of_them() -> None:
    ours = {**OURS, "definitions": {"Options": {"type": "object", **kinds("", "b.example")}}}
    theirs = {"paths": {}, "definitions": {"Options": {"type": "object", **kinds("a.example", "b.example")}}}
    made = merged_v2(ours, [theirs])
    assert made["definitions"] == {"Options": {"type": "object", **kinds("", "a.example", "b.example")}}
    assert ours["definitions"]["Options"] == {"type": "object", **kinds("", "b.example")}


def test_servers_that_say_the_same_share_what_was_called_anew() -> None:
    part = part_of(orjson.dumps(DOCUMENT), ROOT)
    assert merged_v2(OURS, [part, part]) == merged_v2(OURS, [part])
    ours, theirs = documented(A={"B": "B"}, B={}, C={"A": "A"}), documented(A={"B": "B"}, B={"C": "C"}, C={"A": "A"})
    once = merged_v2(ours, [theirs])
    assert list(once["definitions"]) == ["A", "A_v2", "B", "B_v2", "C", "C_v2"]
    assert merged_v2(ours, [theirs, theirs]) == once


names = st.sampled_from(["A", "B", "C", "A_v2"])
schemas = st.fixed_dictionaries(
    {"type": st.sampled_from(["object", "string"]), "properties": st.dictionaries(names, names.map(reference))}
)
documents = st.fixed_dictionaries(
    {"paths": st.dictionaries(names.map(lambda name: f"{ROOT}/{name}"), names.map(operation).map(lambda each: {"get": each}))},
).flatmap(
    lambda document: st.dictionaries(names, schemas, min_size=4).map(lambda found: {**OURS, **document, "definitions": found})
)


def documented(**properties: dict[str, str]) -> dict[str, Any]:
    definitions = {
        name: {"type": "object", "properties": {key: reference(each) for key, each in found.items()}}
        for name, found in properties.items()
    }
    return {**OURS, "paths": {f"{ROOT}/A": {"get": operation("A")}}, "definitions": definitions}


@given(documents, documents)
def test_a_document_that_was_merged_once_adds_nothing(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    part = part_of(orjson.dumps(theirs), ROOT)
    assert merged_v2(ours, [part, part]) == merged_v2(ours, [part])


@given(documents, documents)
@example(  # the same to look at, and in a circle with one that is not
    {**documented(A={"A": "B"}, B={}, C={}, A_v2={}), "paths": {f"{ROOT}/B": {"get": operation("A")}}},
    documented(A={"A": "B"}, B={"A": "A"}, C={}, A_v2={}),
)
def test_a_merged_document_says_of_each_path_what_its_own_document_said(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    merged = merged_v2(ours, [part_of(orjson.dumps(theirs), ROOT)])
    for path, item in theirs["paths"].items():
        assert expanded(merged["paths"][path], merged, 4) == expanded(item, theirs, 4)
    for path, item in ours["paths"].items():
        if path not in theirs["paths"]:
            assert expanded(merged["paths"][path], merged, 4) == expanded(item, ours, 4)


def expanded(value: Any, document: dict[str, Any], depth: int) -> Any:
    """With definitions in place of the first ``depth`` references, so that names do not matter."""
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        definition = document["definitions"].get(value["$ref"].removeprefix("#/definitions/"))
        return expanded(definition, document, depth - 1) if depth else "..."
    return {key: expanded(each, document, depth) for key, each in value.items()}


def test_version_3_says_the_same() -> None:
    made = v3_of(part_of(orjson.dumps(DOCUMENT), ROOT))
    item = made["paths"][f"{ROOT}/widgets"]
    answer = {"application/json": {"schema": {"$ref": "#/components/schemas/Widget"}}}
    assert item["get"]["responses"] == {"200": {"description": "OK", "content": answer}}
    assert item["get"]["x-kubernetes-action"] == "list"
    body = {"content": {"*/*": {"schema": {"$ref": "#/components/schemas/Widget"}}}, "required": True}
    assert item["post"]["requestBody"] == body
    parameter = {"name": "pretty", "in": "query", "description": "p", "schema": {"type": "string", "uniqueItems": True}}
    assert item["parameters"] == [parameter]
    assert made["components"]["schemas"]["Meta"]["properties"]["self"] == {"$ref": "#/components/schemas/Meta"}
