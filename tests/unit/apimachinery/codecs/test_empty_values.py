"""Zero and empty values: which say something, which stand for a field nobody set; the same in JSON and protobuf."""

from typing import Any

import orjson
import pytest

from apimachinery.codecs import protobuf
from apimachinery.gvk import GroupVersionKind
from apimachinery.schema import check, load
from apimachinery.schema.types import ListSchema, MapSchema, ScalarSchema, Schema, StructSchema

KINDS = [gvk for gvk in load().kinds() if protobuf.message_of(gvk) is not None and not gvk.kind.endswith("List")]
ZEROS = {"string": "", "bytes": "", "boolean": False, "int32": 0, "int64": 0, "double": 0}
OPAQUE = ("JSONSchemaProps", "FieldsV1", "TypeMeta")  # unions of JSON types; raw JSON


def all_zero(schema: Schema, depth: int = 0) -> Any:
    """A value with every scalar zero, and everything that can be there present; None where the test has nothing to say."""
    if isinstance(schema, ScalarSchema):
        return ZEROS.get(schema.kind)
    if isinstance(schema, ListSchema):
        inner = all_zero(schema.element, depth)
        return None if inner is None else [inner]
    if isinstance(schema, MapSchema):
        inner = all_zero(schema.value, depth)
        return None if inner is None else {"k": inner}
    if depth > 12 or schema.short_name.startswith(OPAQUE):
        return None
    values = {name: all_zero(field.schema, depth + 1) for name, field in schema.fields.items()}
    return {name: value for name, value in values.items() if value is not None}


@pytest.mark.parametrize("gvk", KINDS, ids=str)
def test_both_encodings_have_one_normal_form(gvk: GroupVersionKind) -> None:
    schema = load().of(gvk)
    zero = {**all_zero(schema), "apiVersion": gvk.api_version, "kind": gvk.kind}
    packed = protobuf.encode(zero)
    assert packed is not None
    unpacked = protobuf.decode(packed)
    assert check.fits(unpacked, schema), "the decoder's result needs no second look"
    check.normalize(zero, schema)
    assert unpacked == zero


def test_a_zero_is_dropped_exactly_where_go_holds_a_value_and_omits_it() -> None:
    text = """{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "", "labels": {}, "deletionGracePeriodSeconds": 0},
      "spec": {"hostNetwork": false, "serviceAccountName": "", "terminationGracePeriodSeconds": 0, "enableServiceLinks": false,
        "tolerations": [{"key": "", "operator": "Exists", "value": "", "tolerationSeconds": 0}],
        "containers": [{"name": "", "workingDir": "", "stdin": false, "args": [], "resources": {},
          "ports": [{"containerPort": 0, "hostPort": 0, "protocol": ""}], "env": [{"name": "", "value": ""}],
          "securityContext": {"runAsUser": 0, "privileged": false}}]},
      "status": {"phase": "", "containerStatuses": [{"name": "", "ready": false, "restartCount": 0, "started": false}]}}"""
    pod = orjson.loads(text)
    check.normalize(pod, load().of(GroupVersionKind("", "v1", "Pod")))
    assert pod["metadata"] == {"deletionGracePeriodSeconds": 0}
    assert pod["spec"] == {
        "terminationGracePeriodSeconds": 0,
        "enableServiceLinks": False,
        "tolerations": [{"operator": "Exists", "tolerationSeconds": 0}],
        "containers": [
            {
                "name": "",
                "resources": {},
                "ports": [{"containerPort": 0}],
                "env": [{"name": ""}],
                "securityContext": {"runAsUser": 0, "privileged": False},
            }
        ],
    }
    assert pod["status"]["containerStatuses"] == [{"name": "", "ready": False, "restartCount": 0, "started": False}]


@pytest.mark.parametrize(
    ("definition", "field", "omitted"),
    [
        ("io.k8s.api.core.v1.PersistentVolumeClaimSpec", "storageClassName", False),
        ("io.k8s.api.core.v1.EphemeralContainer", "restartPolicy", False),  # of an inlined struct, a pointer
        ("io.k8s.api.core.v1.EphemeralContainer", "workingDir", True),
        ("io.k8s.api.core.v1.Toleration", "value", True),
        ("io.k8s.api.scheduling.v1.PriorityClass", "value", False),  # no omitempty
        ("io.k8s.api.scheduling.v1.PriorityClass", "globalDefault", True),
        ("io.k8s.api.apps.v1.DeploymentSpec", "replicas", False),
        ("io.k8s.api.apps.v1.DeploymentStatus", "replicas", True),
        ("io.k8s.api.apps.v1.ReplicaSetStatus", "replicas", False),
        ("io.k8s.api.rbac.v1.Role", "rules", False),
        ("io.k8s.api.rbac.v1.PolicyRule", "apiGroups", True),
        ("io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIServiceSpec", "group", True),
    ],
)
def test_facts(definition: str, field: str, omitted: bool) -> None:
    struct = load().named(definition)
    assert isinstance(struct, StructSchema)
    assert struct.fields[field].omits_empty is omitted


def test_json_schemas_keep_the_names_that_json_has_for_them() -> None:
    properties = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "$ref": "#/x", "$schema": "s"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": properties}}
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": {"versions": [version]}}
    packed = protobuf.encode(crd)
    assert packed is not None
    assert protobuf.decode(packed)["spec"]["versions"][0]["schema"]["openAPIV3Schema"] == properties
