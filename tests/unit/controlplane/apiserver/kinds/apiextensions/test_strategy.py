"""The life of a definition: defaults, status, warnings."""

from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.apiserver.authentication.interface import UserInfo
from controlplane.apiserver.registry.strategy import Context
from tests.unit.controlplane.apiserver.kinds.apiextensions.definitions import STRATEGY, definition, properties, version

CTX = Context(UserInfo("me"), "", "foos.example.com", "create", datetime(2024, 1, 1, tzinfo=UTC))


def test_defaults() -> None:
    obj = definition(conversion=None)
    assert obj["spec"]["names"] == {"plural": "foos", "kind": "Foo", "singular": "foo", "listKind": "FooList"}
    assert obj["spec"]["conversion"] == {"strategy": "None"}
    client = {"service": {"namespace": "a", "name": "b"}}
    webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
    obj = definition(conversion={"strategy": "Webhook", "webhook": webhook})
    assert obj["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["port"] == 443


def test_schemas_of_items_have_the_form_of_all_schemas() -> None:
    obj = properties(l={"type": "array", "items": {"type": "string", "foo": 1, "nullable": False}})
    schema = obj["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema["properties"]["l"]["items"] == {"type": "string"}


@pytest.mark.parametrize(
    ("inner", "why"),
    [
        ({"items": "a"}, "json: cannot unmarshal string into Go value of type v1.JSONSchemaProps"),
        ({"additionalProperties": 1}, "boolean or JSON schema expected"),
        (
            {"items": {"items": {"type": 1}}},
            "json: cannot unmarshal number into Go struct field JSONSchemaProps.type of type string",
        ),
    ],
)
def test_what_cannot_be_decoded_is_refused(inner: dict[str, Any], why: str) -> None:
    obj = properties(a={"type": "array", **inner})
    (error,) = STRATEGY.validate(CTX, obj)
    assert str(error) == f"spec.versions[0].schema.openAPIV3Schema: Invalid value: {why}"
    assert STRATEGY.validate_update(CTX, obj, definition()) == [error]


def test_the_versions_that_objects_are_stored_in_are_noted() -> None:
    old = definition(version(), version("v2", storage=False))
    STRATEGY.prepare_for_create(CTX, old)
    assert old["status"] == {"acceptedNames": {"plural": "", "kind": ""}, "storedVersions": ["v1"]}
    new = definition(version(storage=False), version("v2", storage=True))
    new["status"] = old["status"]
    STRATEGY.prepare_for_update(CTX, new, old)
    assert new["status"]["storedVersions"] == ["v1", "v2"]
    assert old["status"]["storedVersions"] == ["v1"]


def test_formats_nobody_knows_are_warned_of_once() -> None:
    obj = properties(a={"type": "string", "format": "strange"}, b={"type": "integer", "format": "int32"})
    assert STRATEGY.warnings(CTX, obj, None) == ['unrecognized format "strange"']
    assert STRATEGY.warnings(CTX, obj, obj) == []
