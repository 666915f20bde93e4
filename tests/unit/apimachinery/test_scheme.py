"""Decoding request bodies: upstream's refusals, strictness, and what is filled in."""

import pytest

from apimachinery import schema, scheme
from apimachinery.codecs import negotiate
from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersionKind

DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
OPTIONS = GroupVersionKind("meta.k8s.io", "v1", "DeleteOptions")
UNRECOGNIZED = "the object provided is unrecognized (must be of type Deployment): "
HANDLED = ' in version "v1" cannot be handled as a Deployment: '


def decode(data: bytes, media_type: str = negotiate.JSON) -> scheme.Decoded:
    return scheme.decode(data, media_type, DEPLOYMENT, schema.load())


def test_type_is_filled_in_and_the_object_is_normal() -> None:
    decoded = decode(b'{"spec": {"replicas": 2, "paused": null}}')
    assert decoded.obj == {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 2}}
    assert (decoded.gvk, decoded.strict) == (DEPLOYMENT, [])


def test_yaml_is_the_same_object() -> None:
    decoded = decode(b"kind: Deployment\napiVersion: apps/v1\nspec:\n  replicas: 2\n  replicas: 3\n  foo: 1\n", negotiate.YAML)
    assert decoded.obj["spec"] == {"replicas": 3}
    assert decoded.strict == ['unknown field "spec.foo"', 'line 5: key "replicas" already set in map']


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", UNRECOGNIZED + "couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)"),
        (b'{"a":', UNRECOGNIZED + 'couldn\'t get version/kind; json parse error: unexpected end of JSON input ({"a":)'),
        (
            b'{"kind":1}',
            UNRECOGNIZED + "couldn't get version/kind; json parse error: json: cannot unmarshal number"
            ' into Go struct field .kind of type string ({"kind":1})',
        ),
        (
            b'{"kind":"Pod","apiVersion":"v1"}',
            "the API version in the data (v1) does not match the expected API version (apps/v1)",
        ),
        (
            b'{"kind":"Widget","apiVersion":"apps/v1"}',
            f'Widget{HANDLED}no kind "Widget" is registered for version "apps/v1" in scheme "pkg/api/legacyscheme/scheme.go:30"',
        ),
        (b'{"kind":"ReplicaSet"}', f"ReplicaSet{HANDLED}converting (v1.ReplicaSet) to (apps.Deployment): unknown conversion"),
        (
            b'{"spec":{"replicas":"x"}}',
            f"Deployment{HANDLED}json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
    ],
)
def test_refusals(data: bytes, message: str) -> None:
    with pytest.raises(StatusError) as caught:
        decode(data)
    assert (caught.value.code, caught.value.message) == (400, message)


def test_strict_findings_and_their_error() -> None:
    decoded = decode(b'{"spec":{"foo":1,"replicas":1,"replicas":2}}')
    assert decoded.strict == ['unknown field "spec.foo"', 'duplicate field "spec.replicas"']
    expected = f'Deployment{HANDLED}strict decoding error: unknown field "spec.foo", duplicate field "spec.replicas"'
    assert scheme.strict_error(decoded).message == expected


def test_options_of_any_group() -> None:
    struct = schema.load().meta("DeleteOptions")
    for version in ("v1", "apps/v1", "policy/v1"):
        body = f'{{"kind":"DeleteOptions","apiVersion":"{version}","gracePeriodSeconds":0}}'.encode()
        decoded = scheme.decode(body, negotiate.JSON, OPTIONS, schema.load(), schema=struct, any_group=True)
        assert decoded.obj["gracePeriodSeconds"] == 0


# Media types


def test_accept_prefers_quality_then_order() -> None:
    header = "application/yaml;q=0.5, application/json;as=Table;v=v1;g=meta.k8s.io, application/json"
    first = negotiate.accepts(header)
    assert (first.name, first.as_kind, first.as_group_version) == ("application/json", "Table", "meta.k8s.io/v1")
    assert negotiate.accepts(header, kinds=("",)).as_kind == ""
    assert negotiate.accepts("").name == negotiate.JSON
    assert negotiate.accepts("*/*").name == negotiate.JSON
    assert negotiate.accepts("text/html, application/*;q=0.1").name == negotiate.JSON
    assert negotiate.accepts("application/vnd.kubernetes.protobuf, */*", offers=(negotiate.JSON,)).name == negotiate.JSON


def test_what_cannot_be_served_is_406_and_what_cannot_be_read_415() -> None:
    with pytest.raises(StatusError) as caught:
        negotiate.accepts("text/html")
    assert caught.value.code == 406
    with pytest.raises(StatusError) as caught:
        negotiate.body_type("text/html")
    assert caught.value.code == 415
    assert negotiate.body_type("application/json; charset=utf-8") == negotiate.JSON
    assert negotiate.body_type("") == negotiate.JSON
