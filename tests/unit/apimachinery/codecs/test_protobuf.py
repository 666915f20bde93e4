"""Protobuf: every kind there and back, what Go writes, and bytes that are no message."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apimachinery import schema, scheme
from apimachinery.codecs import negotiate, protobuf, protobuf_wire
from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersionKind
from apimachinery.schema import check
from tests.support.samples import sample

SCHEMAS = schema.load()
KINDS = [gvk for gvk in SCHEMAS.kinds() if protobuf.message_of(gvk) and gvk.group != "apiextensions.k8s.io"]
POD = GroupVersionKind("", "v1", "Pod")


@pytest.mark.parametrize("gvk", KINDS, ids=["/".join(gvk) for gvk in KINDS])
def test_every_kind_survives_the_round_trip(gvk: GroupVersionKind) -> None:
    struct = SCHEMAS.of(gvk)
    for seed in range(3):
        obj = {"apiVersion": gvk.api_version, "kind": gvk.kind, **sample(struct, random.Random(f"{gvk}{seed}"))}
        assert check.fits(obj, struct), "the sample itself is not normal"
        data = protobuf.encode(obj)
        assert data is not None
        assert protobuf.decode(data) == obj


def test_the_envelope() -> None:
    data = protobuf.encode({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}})
    type_meta = b"\x0a\x09\x0a\x02v1\x12\x03Pod"
    assert data == b"k8s\0" + type_meta + b"\x12\x05\x0a\x03\x0a\x01p" + b"\x1a\x00\x22\x00"


def test_zero_values_that_go_writes_are_dropped() -> None:
    # metadata {name "p", generateName "", generation 0, creationTimestamp {}}, status {phase ""}
    metadata = b"\x0a\x01p" + b"\x12\x00" + b"\x38\x00" + b"\x42\x00"
    raw = b"\x0a" + bytes([len(metadata)]) + metadata + b"\x1a\x02\x0a\x00"
    data = protobuf.envelope("v1", "Pod", raw)
    assert protobuf.decode(data) == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {}}


def test_an_explicit_zero_of_a_pointer_survives() -> None:
    for value in (0, 3):
        obj = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": value}}
        data = protobuf.encode(obj)
        assert data is not None
        assert protobuf.decode(data) == obj


def decode(data: bytes) -> None:
    scheme.decode(data, negotiate.PROTOBUF, POD, SCHEMAS)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"k8s\0",
        b"k8s\0\xff",
        protobuf.envelope("v1", "Widget", b""),
        protobuf.envelope("v1", "Pod", b"\x0a\x05\x0a"),
        protobuf.envelope("v1", "Pod", b"\x0a\x03\x0a\x01\xff"),
        protobuf.envelope("v1", "Pod", b"\x0a\x02\x3a\x00"),  # generation as bytes
        protobuf.envelope("v1", "Pod", b"\x08\x01"),  # metadata as a number
    ],
)
def test_what_is_no_message_is_a_400(data: bytes) -> None:
    with pytest.raises(StatusError) as caught:
        decode(data)
    assert caught.value.code == 400


@given(st.binary(max_size=60), st.data())
def test_damaged_messages_never_do_more_than_fail(noise: bytes, data: st.DataObject) -> None:
    good = protobuf.encode({"apiVersion": "v1", "kind": "Pod", **sample(SCHEMAS.of(POD), random.Random(1), density=0.3)})
    assert good is not None
    at = data.draw(st.integers(0, len(good)))
    for damaged in (
        noise,
        b"k8s\0" + noise,
        good[:at] + noise,
        good[:at] + noise + good[at:],
        protobuf.envelope("v1", "Pod", noise),
    ):
        try:
            decode(damaged)
        except StatusError as problem:
            assert problem.code == 400  # noqa: PT017


CRD = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")


def test_schemas_in_schemas() -> None:
    """Members that JSON writes bare: a schema or a list, a schema or a boolean, a schema or strings."""
    props = {
        "type": "object",
        "additionalProperties": False,
        "items": {"type": "string"},
        "properties": {"a": {"items": [{"type": "string"}], "additionalProperties": {"type": "integer"}, "default": {"x": 1}}},
        "dependencies": {"b": ["c", "d"], "e": {"type": "string"}},
        "enum": ["x", 1],
    }
    obj = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": props}}]},
    }
    data = protobuf.encode(obj)
    assert data is not None
    assert protobuf.decode(data) == obj


def test_nesting_is_bounded() -> None:
    message = "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1."
    raw = _field(message + "JSONSchemaProps", "type", b"x")
    for _ in range(3000):
        raw = _field(message + "JSONSchemaProps", "not", raw)
    for parent, name in (
        ("CustomResourceValidation", "openAPIV3Schema"),
        ("CustomResourceDefinitionVersion", "schema"),
        ("CustomResourceDefinitionSpec", "versions"),
        ("CustomResourceDefinition", "spec"),
    ):
        raw = _field(message + parent, name, raw)
    with pytest.raises(StatusError, match="exceeded max depth"):
        scheme.decode(protobuf.envelope(CRD.api_version, CRD.kind, raw), negotiate.PROTOBUF, CRD, SCHEMAS)


def _field(message: str, name: str, data: bytes) -> bytes:
    (number,) = [field.number for field in protobuf.messages().fields(message).values() if field.name == name]
    out = bytearray()
    protobuf_wire.write_bytes(out, number, data)
    return bytes(out)
