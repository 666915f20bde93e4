"""Type errors, unknown fields and the normal form, against the built-in schemas."""

import copy
from typing import Any

import pytest

from apimachinery import schema
from apimachinery.gvk import GroupVersionKind
from apimachinery.schema import check

POD = GroupVersionKind("", "v1", "Pod")
DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")


def struct(gvk: GroupVersionKind) -> schema.StructSchema:
    return schema.load().of(gvk)


def pod(**spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "busybox", "ports": [{"containerPort": 80}]}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers, **spec}}


def test_an_object_in_normal_form_has_nothing_to_report() -> None:
    obj = pod(nodeSelector={"a": "b"}, volumes=[{"name": "v", "emptyDir": {}}])
    before = copy.deepcopy(obj)
    findings = check.normalize(obj, struct(POD))
    assert (findings.type_errors, findings.unknown) == ([], [])
    assert obj == before
    assert check.fits(obj, struct(POD))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param(
            {"hostNetwork": "yes"},
            "json: cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type bool",
            id="string for bool",
        ),
        pytest.param(
            {"containers": [{"name": 5}]},
            "json: cannot unmarshal number into Go struct field Container.spec.containers.name of type string",
            id="number for string",
        ),
        pytest.param(
            {"containers": {}},
            "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
            id="object for list",
        ),
        pytest.param(
            {"nodeSelector": {"a": 1}},
            "json: cannot unmarshal number into Go struct field PodSpec.spec.nodeSelector of type string",
            id="number in a map of strings",
        ),
        pytest.param(
            {"restartPolicy": 5},
            "json: cannot unmarshal number into Go struct field PodSpec.spec.restartPolicy of type v1.RestartPolicy",
            id="a string with a type of its own",
        ),
        pytest.param(
            {"priority": 3_000_000_000},
            "json: cannot unmarshal number 3000000000 into Go struct field PodSpec.spec.priority of type int32",
            id="int32 out of range",
        ),
        pytest.param(
            {"terminationGracePeriodSeconds": 1.5},
            "json: cannot unmarshal number 1.5 into Go struct field PodSpec.spec.terminationGracePeriodSeconds of type int64",
            id="fraction for int64",
        ),
        pytest.param(
            {"containers": [{"name": "c", "resources": {"limits": {"cpu": "lots"}}}]},
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            id="bad quantity",
        ),
        pytest.param(
            {"containers": [{"name": "c", "livenessProbe": {"httpGet": {"port": True}}}]},
            "json: cannot unmarshal bool into Go struct field"
            " HTTPGetAction.spec.containers.livenessProbe.httpGet.port of type int32",
            id="bool for IntOrString",
        ),
        pytest.param(
            {"securityContext": []},
            "json: cannot unmarshal array into Go struct field PodSpec.spec.securityContext of type v1.PodSecurityContext",
            id="list for struct",
        ),
    ],
)
def test_type_errors_are_those_of_upstreams_decoder(spec: dict[str, Any], message: str) -> None:
    assert check.type_errors(pod(**spec), struct(POD))[0] == message


@pytest.mark.parametrize(
    ("when", "message"),
    [
        ("soon", 'parsing time "soon" as "2006-01-02T15:04:05Z07:00": cannot parse "soon" as "2006"'),
        ("2024-01-01", 'parsing time "2024-01-01" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T"'),
        ("2024-13-01T00:00:00Z", 'parsing time "2024-13-01T00:00:00Z": month out of range'),
        ("2024-02-30T00:00:00Z", 'parsing time "2024-02-30T00:00:00Z": day out of range'),
    ],
)
def test_bad_times_are_named(when: str, message: str) -> None:
    obj = pod()
    obj["metadata"]["creationTimestamp"] = when
    assert check.type_errors(obj, struct(POD)) == [message]


def test_secret_data_must_be_base64() -> None:
    secret = struct(GroupVersionKind("", "v1", "Secret"))
    assert check.type_errors({"data": {"a": "YQ=="}}, secret) == []
    assert check.type_errors({"data": {"a": "YQ=$"}}, secret) == ["illegal base64 data at input byte 3"]


def test_unknown_fields_are_named_with_list_positions_and_nothing_is_changed() -> None:
    obj = pod(foo=1)
    obj["spec"]["containers"][0]["bar"] = {}
    before = copy.deepcopy(obj)
    assert check.unknown_fields(obj, struct(POD)) == [
        'unknown field "spec.containers[0].bar"',
        'unknown field "spec.foo"',
    ]
    assert obj == before


def test_the_normal_form() -> None:
    obj = pod(foo=1, hostname=None, nodeSelector={}, tolerations=[], securityContext={})
    obj["metadata"] |= {"creationTimestamp": "2024-01-01T02:00:00.5+02:00", "labels": {"a": None}}
    obj["spec"]["containers"][0]["resources"] = {"limits": {"cpu": 0.5, "memory": "1024Mi"}}
    check.normalize(obj, struct(POD))
    assert obj["metadata"] == {"name": "p", "creationTimestamp": "2024-01-01T00:00:00Z", "labels": {"a": ""}}
    assert obj["spec"].keys() == {"containers", "securityContext"}
    assert obj["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "500m", "memory": "1Gi"}}
    assert check.fits(obj, struct(POD))


def test_the_null_times_of_go_clients_are_dropped() -> None:
    obj: dict[str, Any] = {
        "metadata": {"creationTimestamp": None},
        "spec": {"template": {"metadata": {"creationTimestamp": None}}},
    }
    assert check.normalize(obj, struct(DEPLOYMENT)) == check.Findings()
    assert obj == {"metadata": {}, "spec": {"template": {"metadata": {}}}}


def test_recursive_and_free_form_schemas() -> None:
    crd = struct(GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition"))
    validation = {
        "openAPIV3Schema": {"type": "object", "properties": {"a": {"items": {"type": "string"}, "default": {"x": [None]}}}}
    }
    obj = {"spec": {"versions": [{"name": "v1", "schema": validation}]}}
    before = copy.deepcopy(obj)
    assert check.normalize(obj, crd) == check.Findings()
    assert obj == before


def test_every_kind_compiles() -> None:
    schemas = schema.load()
    for gvk in schemas.kinds():
        assert not check.fits({"no such field": 1}, schemas.of(gvk))
        assert check.fits({}, schemas.of(gvk))


def test_patch_metadata_is_there() -> None:
    fields = schema.load().named("io.k8s.api.core.v1.ServiceSpec").fields
    ports = fields["ports"]
    assert (ports.strategies, ports.merge_key) == (("merge",), "port")
    assert isinstance(ports.schema, schema.ListSchema)
    assert ports.schema.keys == ("port", "protocol")
    assert isinstance(ports.schema.element, schema.StructSchema)
    assert ports.schema.element.fields["protocol"].default == "TCP"
    assert struct(DEPLOYMENT).definition.kinds == (DEPLOYMENT,)
