"""Objects through protobuf and back, and bytes as upstream writes them."""

from typing import Any

import pytest

from apimachinery.codecs import protobuf
from apimachinery.codecs import protobuf_wire as wire
from apimachinery.gvk import GroupVersionKind

META: dict[str, Any] = {"name": "x", "creationTimestamp": "2026-11-30T11:52:32Z", "labels": {"a": "b"}}
OBJECTS = [
    pytest.param(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": META, "data": {"k": "v"}, "binaryData": {"b": "AAEC"}}, id="map"
    ),
    pytest.param({"apiVersion": "v1", "kind": "Secret", "metadata": META, "data": {"p": "cQ=="}, "type": "Opaque"}, id="bytes"),
    pytest.param(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**META, "managedFields": [{"manager": "k", "fieldsV1": {"f:a": {}}}]},
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "automountServiceAccountToken": False,
                "containers": [
                    {
                        "name": "c",
                        "resources": {"requests": {"cpu": "100m"}},
                        "readinessProbe": {"httpGet": {"path": "/", "port": "http"}},
                        "livenessProbe": {"tcpSocket": {"port": 80}},
                        "env": [{"name": "a", "valueFrom": {"configMapKeyRef": {"name": "n", "key": "k"}}}],
                    }
                ],
                "volumes": [{"name": "v", "emptyDir": {}}],
            },
        },
        id="pod",
    ),
    pytest.param(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": META,
            "spec": {"replicas": 0, "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}}},
        },
        id="int-or-string",
    ),
    pytest.param(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": META,
            "spec": {"renewTime": "2026-11-30T11:52:32.000001Z", "holderIdentity": "h"},
        },
        id="micro-time",
    ),
    pytest.param(
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": {"user": {"extra": {"k": ["a", "b"]}}}},
        id="lists-in-maps",
    ),
    pytest.param({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound"}, id="status"),
]


@pytest.mark.parametrize("obj", OBJECTS)
def test_round_trip(obj: dict[str, Any]) -> None:
    packed = protobuf.encode(obj)
    assert packed is not None
    assert packed.startswith(b"k8s\0")
    assert protobuf.decode(packed) == obj


def test_zero_values_that_upstream_writes_for_unset_fields_are_dropped() -> None:
    raw = bytearray()
    wire.write_bytes(raw, 1, b"")  # metadata, all unset
    status = bytearray()
    for number in (1, 2, 3):  # observedGeneration (kept: a pointer elsewhere), replicas, updatedReplicas
        wire.write_tag(status, number, wire.VARINT)
        wire.write_varint(status, 0)
    wire.write_bytes(raw, 3, bytes(status))
    obj = protobuf.decode(protobuf.envelope("apps/v1", "Deployment", bytes(raw)))
    assert "updatedReplicas" not in obj["status"]


def test_the_zero_time_is_no_time() -> None:
    meta = bytearray()
    wire.write_bytes(meta, 1, b"x")
    wire.write_bytes(meta, 8, b"")  # creationTimestamp
    raw = bytearray()
    wire.write_bytes(raw, 1, bytes(meta))
    assert protobuf.decode(protobuf.envelope("v1", "ConfigMap", bytes(raw)))["metadata"] == {"name": "x"}


def test_kinds_without_a_message_have_no_form() -> None:
    assert protobuf.encode({"apiVersion": "meta.k8s.io/v1", "kind": "Table"}) is None
    assert protobuf.encode({"apiVersion": "example.com/v1", "kind": "Thing"}) is None


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"k8s\0\x0a\xff", b"k8s\0\x12\x05ab", b"k8s\0" + b"\xff" * 12],
    ids=["empty", "json", "cut", "short", "varint"],
)
def test_broken_data_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - any sentence will do
        protobuf.decode(data)


def test_negative_numbers() -> None:
    out = bytearray()
    wire.write_varint(out, -5)
    value, _ = wire.read_varint(bytes(out), 0)
    assert wire.signed(value) == -5


@pytest.mark.parametrize("count", [0, 1, 200])
@pytest.mark.parametrize(
    "metadata", [{"resourceVersion": "7"}, {"resourceVersion": "7", "continue": "x", "remainingItemCount": 3}]
)
def test_a_list_put_together_is_the_list_encoded_whole(count: int, metadata: dict[str, Any]) -> None:
    pods = [{"metadata": {"name": f"p{n}"}, "spec": {"containers": [{"name": "c", "image": "i" * n}]}} for n in range(count)]
    gvk = GroupVersionKind("", "v1", "PodList")
    make = protobuf.list_items(gvk)
    assert make is not None
    items = b"".join(map(make, pods))
    lead, tail = protobuf.list_frame("v1", "PodList", metadata, len(items))
    assert lead + items + tail == protobuf.encode({"apiVersion": "v1", "kind": "PodList", "metadata": metadata, "items": pods})
    assert protobuf.list_items(GroupVersionKind("example.com", "v1", "ThingList")) is None
