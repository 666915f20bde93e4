"""Where pods with claims can go, and what is promised to them on the way."""

import asyncio
from typing import Any

import pytest

from apimachinery.objects import volumes
from component.clock import FakeClock
from controlplane.scheduler.cycle import Decision
from controlplane.scheduler.framework.status import Code
from controlplane.scheduler.framework.types import PodInfo
from controlplane.scheduler.plugins import node_volume_limits, volume_binding, volume_restrictions, volume_zone
from controlplane.scheduler.plugins.volume_binding import VolumeBinding
from tests.support.scheduling import Bench, HeldStorage, make_node, make_pod
from tests.support.storage import claim_volume, make_claim, make_class, make_volume

BOUND = {volumes.BIND_COMPLETED: "yes"}
LATE = make_class("late", volumeBindingMode="WaitForFirstConsumer")
MADE = make_class("made", "disk.example.com", volumeBindingMode="WaitForFirstConsumer")


def bound(name: str = "c", volume: str = "v", **more: Any) -> dict[str, Any]:
    return make_claim(name, annotations=BOUND, volumeName=volume, phase="Bound", uid=name, **more)


def using(*claims: str, **more: Any) -> dict[str, Any]:
    return make_pod(volumes=[claim_volume(name, name) for name in claims], **more)


NODES = (make_node("a"), make_node("b"))


def test_a_pod_goes_where_its_bound_volume_is() -> None:
    storage = HeldStorage(bound(), make_volume(node="b"))
    assert Bench(*NODES, storage=storage).place(using("c")) == "b"
    elsewhere = Bench(NODES[0], storage=storage)
    assert elsewhere.refusal(using("c")) == f"0/1 nodes are available: 1 {volume_binding.WRONG_NODE}."


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        pytest.param([], 'persistentvolumeclaim "c" not found', id="no-claim"),
        pytest.param([make_claim()], volume_binding.UNBOUND, id="unbound"),
        pytest.param([make_claim(volumeName="v")], volume_binding.UNBOUND, id="half-bound"),
        pytest.param([bound()], f"2 {volume_binding.GONE}", id="volume-gone"),
        pytest.param(
            [{**bound(), "status": {"phase": "Lost"}}],
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
            id="lost",
        ),
        pytest.param([make_claim(storage_class="late"), LATE], f"2 {volume_binding.NO_VOLUME}", id="none-to-be-had"),
    ],
)
def test_why_a_pod_must_wait(objects: list[dict[str, Any]], reason: str) -> None:
    bench = Bench(*NODES, storage=HeldStorage(*objects))
    assert bench.refusal(using("c")) == f"0/2 nodes are available: {reason}."


def test_an_ephemeral_volume_waits_for_its_claim_and_takes_no_others() -> None:
    pod = make_pod("p", volumes=[{"name": "e", "ephemeral": {}}])
    text = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-e"'
    assert text in Bench(*NODES, storage=HeldStorage()).refusal(pod)
    assert "pod is not owner" in Bench(*NODES, storage=HeldStorage(bound("p-e"), make_volume())).refusal(pod)


def test_two_claims_of_a_pod_get_two_volumes_and_large_ones_are_left_to_large_claims() -> None:
    small, large = (make_claim(name, size, storage_class="late") for name, size in (("small", "1Gi"), ("large", "5Gi")))
    offered = [make_volume(f"v{size}", f"{size}Gi", storage_class="late", node="a", phase="Available") for size in (2, 5)]
    bench = Bench(*NODES, storage=HeldStorage(small, large, *offered, LATE))
    decision = bench.decide(using("large", "small"))
    assert isinstance(decision, Decision)
    found = decision.state.read("VolumeBinding").found["a"]
    assert {claim["metadata"]["name"]: volume["metadata"]["name"] for claim, volume in found.matches} == {
        "small": "v2",
        "large": "v5",
    }


def test_a_volume_is_made_where_topology_and_space_allow() -> None:
    kind = {**MADE, "allowedTopologies": [{"matchLabelExpressions": [{"key": "kubernetes.io/hostname", "values": ["b"]}]}]}
    claim = make_claim(storage_class="made")
    assert Bench(*NODES, storage=HeldStorage(claim, kind)).fits(using("c")) == {"b"}
    driver = {"kind": "CSIDriver", "metadata": {"name": "disk.example.com"}, "spec": {"storageCapacity": True}}
    bench = Bench(*NODES, storage=HeldStorage(claim, MADE, driver))
    assert volume_binding.NO_SPACE in bench.refusal(using("c"))
    room = {
        "kind": "CSIStorageCapacity",
        "metadata": {"name": "room", "namespace": "x"},
        "storageClassName": "made",
        "capacity": "10Gi",
        "nodeTopology": {"matchLabels": {"kubernetes.io/hostname": "a"}},
    }
    assert Bench(*NODES, storage=HeldStorage(claim, MADE, driver, room)).fits(using("c")) == {"a"}


def test_a_node_that_was_chosen_stays_chosen() -> None:
    claim = make_claim(storage_class="made", annotations={volumes.SELECTED_NODE: "b"})
    assert Bench(*NODES, storage=HeldStorage(claim, MADE)).fits(using("c")) == {"b"}


async def bind(bench: Bench, pod: dict[str, Any]) -> tuple[VolumeBinding, Any, str, PodInfo]:
    decision = bench.decide(pod)
    assert isinstance(decision, Decision)
    plugin = next(each for each in bench.cycle.profile.plugins if isinstance(each, VolumeBinding))
    info = PodInfo(pod)
    assert plugin.reserve(decision.state, info, decision.node) is None
    assert plugin.waits(decision.state)
    return plugin, decision.state, decision.node, info


async def test_binding_waits_until_the_claim_is_bound() -> None:
    clock = FakeClock()
    claim = make_claim(storage_class="made", uid="1")

    class Waiting(HeldStorage):
        async def change(self, claims: Any, seconds: float) -> None:
            await clock.sleep(seconds)

    storage = Waiting(claim, MADE)
    plugin, state, node, pod = await bind(Bench(NODES[0], storage=storage, clock=clock), using("c"))
    task = asyncio.ensure_future(plugin.pre_bind(state, pod, node))
    await clock.advance(20)
    assert [annotations["metadata"]["annotations"] for annotations in storage.writes] == [{volumes.SELECTED_NODE: "a"}]
    assert not task.done()
    storage.put(bound())
    await clock.advance(20)
    assert await task is None


async def test_binding_gives_up_when_the_provisioner_refuses_and_after_ten_minutes() -> None:
    clock = FakeClock()

    class Waiting(HeldStorage):
        async def change(self, claims: Any, seconds: float) -> None:
            await clock.sleep(seconds)

    claim = make_claim(storage_class="made", uid="1")
    for refuse, text in ((True, "selectedNode annotation reset"), (False, "context deadline exceeded")):
        storage = Waiting(claim, MADE)
        plugin, state, node, pod = await bind(Bench(NODES[0], storage=storage, clock=clock), using("c"))
        task = asyncio.ensure_future(plugin.pre_bind(state, pod, node))
        await clock.advance(1)
        if refuse:
            storage.put(claim)
        await clock.advance(700)
        status = await task
        assert status is not None
        assert (status.code, text in status.message) == (Code.ERROR, True)


def test_a_claim_for_one_pod_is_used_by_one_and_can_be_taken_from_a_less_important_one() -> None:
    storage = HeldStorage(bound(accessModes=["ReadWriteOncePod"]), make_volume())
    bench = Bench(*NODES, running=(using("c", node="a", priority=1),), storage=storage)
    assert volume_restrictions.TAKEN in bench.refusal(using("c", priority=1))
    important = PodInfo(using("c", priority=5))
    refusal = bench.cycle.decide(important)
    assert not isinstance(refusal, Decision)
    preemption = bench.cycle.preempt(important, refusal)
    assert not isinstance(preemption, str)
    assert preemption.node == "a"


def test_zones_of_volumes() -> None:
    zoned = [
        make_node(name, labels={"topology.kubernetes.io/zone": zone}) for name, zone in (("a", "z1"), ("b", "z2"), ("c", "z3"))
    ]
    volume = make_volume(labels={"failure-domain.beta.kubernetes.io/zone": "z1__z3"})
    bench = Bench(*zoned, make_node("plain"), storage=HeldStorage(bound(), volume))
    assert bench.fits(using("c")) == {"a", "c", "plain"}
    assert volume_zone.NO_ZONE in Bench(zoned[1], storage=HeldStorage(bound(), volume)).refusal(using("c"))


def test_a_node_takes_as_many_volumes_as_its_driver_says() -> None:
    limit = {"kind": "CSINode", "metadata": {"name": "a"}, "spec": {"drivers": [{"name": "d", "allocatable": {"count": 2}}]}}
    made = [make_volume(f"v{n}", csi={"driver": "d", "volumeHandle": f"h{n}"}) for n in range(3)]
    claims = [bound(f"c{n}", f"v{n}") for n in range(3)]
    bench = Bench(NODES[0], running=(using("c0", node="a"), using("c1", node="a")), storage=HeldStorage(limit, *made, *claims))
    assert node_volume_limits.FULL in bench.refusal(using("c2"))
    assert bench.fits(using("c1")) == {"a"}  # a volume that is there already takes no more room
