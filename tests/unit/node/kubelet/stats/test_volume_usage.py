"""Volumes on the pages of the kubelet."""

from collections.abc import Sequence
from typing import Any

from component.clock import FakeClock
from node.kubelet.interface import VolumeError, VolumeStats
from node.kubelet.stats.volumes import VolumeUsage, volume_metrics

FULL = VolumeStats("data", ("ns", "c"), 100, 70, 30, 10, 7, 3, abnormal=False)
PODS = [{"metadata": {"uid": uid}} for uid in ("u1", "u2")]


async def measure(pod: Any) -> Sequence[VolumeStats]:
    if pod["metadata"]["uid"] == "u2":
        raise VolumeError("the driver is not there")
    return [FULL, VolumeStats("scratch", None, 100, 70, 1, 10, 7, 2)]


async def test_the_summary_shows_what_could_be_measured() -> None:
    usage = VolumeUsage(lambda: PODS, measure, FakeClock())
    await usage.look()
    data, scratch = usage.of_pod("u1")
    assert data == {
        "time": data["time"],
        "availableBytes": 70,
        "capacityBytes": 100,
        "usedBytes": 30,
        "inodesFree": 7,
        "inodes": 10,
        "inodesUsed": 3,
        "name": "data",
        "pvcRef": {"name": "c", "namespace": "ns"},
        "volumeHealthStats": {"abnormal": False},
    }
    assert "pvcRef" not in scratch
    assert usage.of_pod("u2") == []
    assert b'kubelet_volume_stats_used_bytes{namespace="ns",persistentvolumeclaim="c"} 30\n' in usage.metrics()


def test_metrics_are_of_claims_and_say_only_what_is_known() -> None:
    partly = VolumeStats("x", ("ns", "d"), capacity=5)
    lines = volume_metrics([FULL, FULL, partly, VolumeStats("scratch", None, 1)]).decode().splitlines()
    assert [line for line in lines if line.startswith("kubelet_volume_stats_capacity_bytes")] == [
        'kubelet_volume_stats_capacity_bytes{namespace="ns",persistentvolumeclaim="c"} 100',
        'kubelet_volume_stats_capacity_bytes{namespace="ns",persistentvolumeclaim="d"} 5',
    ]
    assert len([line for line in lines if line.startswith("kubelet_volume_stats_inodes{")]) == 1
    assert volume_metrics([]) == b""
