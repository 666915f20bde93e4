"""Who is evicted first, what they are told, and who is not let in meanwhile."""

from typing import Any

import pytest

from node.kubelet.eviction import ranking
from node.kubelet.eviction import thresholds as t
from node.kubelet.eviction.ranking import ContainerUsed, PodUsed, rank
from node.kubelet.eviction.signals import Observation
from node.kubelet.eviction.thresholds import Amount, Threshold

MI = 1 << 20


def pod(name: str, memory: str = "", priority: int = 0, storage: str = "", **spec: Any) -> dict[str, Any]:
    requests = {**({"memory": memory} if memory else {}), **({"ephemeral-storage": storage} if storage else {})}
    container = {"name": "main", "resources": {"requests": requests} if requests else {}}
    metadata = {"name": name, "namespace": "default", "uid": name}
    return {"metadata": metadata, "spec": {"containers": [container], "priority": priority, **spec}}


def using(**used: ContainerUsed) -> dict[str, PodUsed]:
    return {name: PodUsed({"main": each}) for name, each in used.items()}


def names(ranked: list[Any]) -> list[str]:
    return [each["metadata"]["name"] for each in ranked]


def test_who_exceeds_its_request_goes_before_who_does_not() -> None:
    listed = [pod("modest", "100Mi", priority=-5), pod("greedy", "10Mi", priority=5)]
    usage = using(modest=ContainerUsed(memory=90 * MI), greedy=ContainerUsed(memory=20 * MI))

    assert names(rank(t.MEMORY, listed, usage, dedicated=False)) == ["greedy", "modest"]


def test_then_priority_then_how_far_above() -> None:
    listed = [pod("a", "10Mi"), pod("b", "10Mi"), pod("low", "10Mi", priority=-1)]
    usage = using(a=ContainerUsed(memory=20 * MI), b=ContainerUsed(memory=90 * MI), low=ContainerUsed(memory=11 * MI))

    assert names(rank(t.MEMORY, listed, usage, dedicated=False)) == ["low", "b", "a"]


def test_critical_and_static_pods_are_never_evicted() -> None:
    static = pod("static")
    static["metadata"]["annotations"] = {"kubernetes.io/config.source": "file"}

    assert rank(t.MEMORY, [static, pod("system", priority=2_000_000_000)], {}, dedicated=False) == []


def test_disk_is_counted_where_it_is_short() -> None:
    listed = [pod("layers"), pod("logs")]
    usage = using(layers=ContainerUsed(rootfs=90 * MI), logs=ContainerUsed(logs=10 * MI))

    assert names(rank(t.NODEFS, listed, usage, dedicated=False)) == ["layers", "logs"]
    assert names(rank(t.NODEFS, listed, usage, dedicated=True)) == ["logs", "layers"]
    assert names(rank(t.IMAGEFS, listed, usage, dedicated=True)) == ["layers", "logs"]


def test_inodes_and_processes_have_their_own_order() -> None:
    listed = [pod("few"), pod("many")]
    usage = {
        "few": PodUsed({"main": ContainerUsed(rootfs=90 * MI, rootfs_inodes=1)}, processes=1),
        "many": PodUsed({"main": ContainerUsed(rootfs_inodes=1000)}, processes=50),
    }

    assert names(rank(t.NODEFS_INODES, listed, usage, dedicated=False)) == ["many", "few"]
    assert names(rank(t.PID, listed, usage, dedicated=False)) == ["many", "few"]


def test_the_message_names_resource_threshold_and_the_greedy_container() -> None:
    text = ranking.message(
        Threshold(t.MEMORY, Amount(100 * MI)),
        Observation(80 * MI, 1000 * MI),
        pod("web", "10Mi"),
        PodUsed({"main": ContainerUsed(memory=50 * MI)}),
    )

    assert text == (
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 80Mi. "
        "Container main was using 50Mi, request is 10Mi, has larger consumption of memory. "
    )


@pytest.mark.parametrize(
    ("pressures", "quality", "tolerates", "priority", "refused"),
    [
        ([], "BestEffort", False, 0, False),
        (["MemoryPressure"], "BestEffort", False, 0, True),
        (["MemoryPressure"], "BestEffort", True, 0, False),
        (["MemoryPressure"], "Burstable", False, 0, False),
        (["DiskPressure"], "Guaranteed", True, 0, True),
        (["DiskPressure", "MemoryPressure"], "Guaranteed", True, 0, True),
        (["DiskPressure"], "BestEffort", False, 2_000_001_000, False),
    ],
)
def test_a_node_under_pressure_takes_only_some(
    pressures: list[str], quality: str, tolerates: bool, priority: int, refused: bool
) -> None:
    message = ranking.refusal(pod("new", priority=priority), pressures, quality, tolerates)

    assert (message is not None) == refused
    if refused:
        assert message == f"Pod was rejected: The node had condition: [{' '.join(pressures)}]. "
