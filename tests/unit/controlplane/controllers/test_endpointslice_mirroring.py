import pytest

from apimachinery.meta import Object
from controlplane.controllers import endpointslice_mirroring as mirroring

ENDPOINTS: Object = {
    "metadata": {"name": "db", "namespace": "ns", "uid": "e", "labels": {"team": "x"}},
    "subsets": [
        {
            "addresses": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
            "notReadyAddresses": [{"ip": "10.0.0.2", "nodeName": "n"}],
            "ports": [{"port": 5432, "protocol": "TCP"}],
        }
    ],
}


def test_a_slice_for_each_family() -> None:
    four, six = mirroring.wanted_slices(ENDPOINTS)
    assert (four["addressType"], six["addressType"]) == ("IPv4", "IPv6")
    assert four["endpoints"] == [
        {"addresses": ["10.0.0.1"], "conditions": {"ready": True}},
        {"addresses": ["10.0.0.2"], "conditions": {"ready": False}, "nodeName": "n"},
    ]
    assert four["ports"] == [{"name": "", "protocol": "TCP", "port": 5432}]
    assert four["metadata"]["labels"] == {
        "team": "x",
        "kubernetes.io/service-name": "db",
        "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
    }


def test_slices_are_reused() -> None:
    wanted = mirroring.wanted_slices(ENDPOINTS)
    assert len(mirroring.plan(wanted, []).create) == 2
    nothing = mirroring.plan(mirroring.wanted_slices(ENDPOINTS), wanted)
    assert (nothing.create, nothing.update, nothing.delete) == ([], [], [])
    changes = mirroring.plan([{**wanted[0], "endpoints": []}], wanted)
    assert (len(changes.create), len(changes.update), len(changes.delete)) == (0, 1, 1)


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({}, True),
        ({"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}, False),
        ({"annotations": {"control-plane.alpha.kubernetes.io/leader": "{}"}}, False),
    ],
)
def test_what_is_mirrored(metadata: Object, expected: bool) -> None:
    assert mirroring.is_mirrored({"metadata": metadata}) is expected
