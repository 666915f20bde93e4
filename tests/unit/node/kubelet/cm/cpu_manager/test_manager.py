"""The manager over the in-memory runtime: others are moved off, a successor goes on, what is gone is taken back."""

from pathlib import Path
from typing import Any

import pytest

from component.clock import FakeClock
from component.metrics import Registry
from cri import errors
from cri.api import runtime_v1_pb2 as pb
from node.kubelet.cm import cpuset
from node.kubelet.cm.cpu_manager.manager import CpuManager
from node.kubelet.cm.cpu_manager.options import Options
from node.kubelet.cm.cpu_manager.policy import StaticPolicy
from node.kubelet.cm.cpu_manager.state import FILE, load
from node.kubelet.cm.metrics import ResourceMetrics
from node.kubelet.runtime.observed import ObservedContainer, ObservedPod, State
from tests.support.numa import DESKTOP
from tests.unit.node.kubelet.cm.cpu_manager.test_policy import Anywhere, container, pod


class Runtime:
    def __init__(self) -> None:
        self.moved: list[tuple[str, str]] = []
        self.failures: list[Exception] = []

    async def update_container_resources(self, container_id: str, resources: pb.LinuxContainerResources) -> None:
        if self.failures:
            raise self.failures.pop()
        self.moved.append((container_id, resources.cpuset_cpus))


class Bench:
    def __init__(self, folder: Path, static: bool = True) -> None:
        self.path = folder / FILE
        self.runtime, self.registry = Runtime(), Registry(process=False)
        self.running: dict[str, ObservedPod] = {}
        policy = None
        if static:
            state = load(self.path, "static")
            policy = StaticPolicy(DESKTOP.topology(), Options(), Anywhere(), state, 1, frozenset({0}))
            policy.start()
        runtime: Any = self.runtime
        metrics = ResourceMetrics(self.registry)
        self.manager = CpuManager(policy, self.path, runtime, lambda: self.running, FakeClock(), 10.0, metrics)

    def runs(self, uid: str, name: str) -> None:
        self.running[uid] = ObservedPod(uid, containers=(ObservedContainer(f"{uid}-{name}", name, "s", State.RUNNING),))

    async def take(self, wanted: dict[str, Any]) -> None:
        for each in wanted["spec"]["containers"]:
            await self.manager.allocate(wanted, each)


async def test_others_are_moved_off_the_cpus_that_somebody_owns(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    assert bench.manager.cpus_for("other", "web") == cpuset.parse("0-7")
    bench.runs("other", "web")

    await bench.take(pod(container("a", "2"), uid="own"))
    assert bench.manager.cpus_for("own", "a") == {1, 5}
    bench.runs("own", "a")
    await bench.manager.reconcile()
    await bench.manager.reconcile()

    assert bench.runtime.moved == [("other-web", "0,2-4,6-7")]
    del bench.running["own"]
    bench.manager.forget("own")
    await bench.manager.reconcile()
    assert bench.runtime.moved[1:] == [("other-web", "0-7")]


async def test_a_successor_finds_what_was_given(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    owner = pod(container("a", "2"), uid="own")
    await bench.take(owner)
    assert bench.path.exists(), "before anything runs"

    successor = Bench(tmp_path)
    await successor.take(owner)
    assert successor.manager.cpus_for("own", "a") == {1, 5}
    successor.runs("new", "web")
    await successor.manager.reconcile()
    assert successor.runtime.moved == [("new-web", "0,2-4,6-7")], "what runs was perhaps made by somebody who knew less"


async def test_a_container_that_cannot_be_moved_is_tried_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.runs("other", "web")
    bench.runtime.failures = [errors.RuntimeServiceError("busy")]

    await bench.manager.reconcile()
    await bench.manager.reconcile()

    assert bench.runtime.moved == [("other-web", "0-7")]


async def test_what_pods_own_that_are_gone_is_taken_back(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    await bench.take(pod(container("a", "2"), uid="gone"))
    await bench.take(pod(container("a", "1"), uid="here"))

    bench.manager.sweep({"here"})
    await bench.manager.save()

    assert set(load(bench.path, "static").owned) == {"here"}


async def test_the_policy_none_restricts_nobody_and_is_remembered(tmp_path: Path) -> None:
    bench = Bench(tmp_path, static=False)
    bench.runs("other", "web")
    await bench.take(pod(container("a", "2"), uid="own"))
    await bench.manager.save()
    await bench.manager.reconcile()

    assert bench.manager.cpus_for("own", "a") == frozenset()
    assert bench.runtime.moved == []
    assert bench.path.read_text() == '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'
    with pytest.raises(ValueError, match='configured policy "static" differs'):
        Bench(tmp_path)


async def test_figures(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    await bench.take(pod(container("a", "2"), uid="own"))
    with pytest.raises(ValueError, match="not enough cpus"):
        await bench.take(pod(container("a", "7"), uid="more"))

    shown = bench.registry.expose().decode()
    for line in (
        "kubelet_cpu_manager_pinning_requests_total 2.0",
        "kubelet_cpu_manager_pinning_errors_total 1.0",
        "kubelet_cpu_manager_shared_pool_size_millicores 5000.0",
        "kubelet_cpu_manager_exclusive_cpu_allocation_count 2.0",
        'kubelet_cpu_manager_allocation_per_numa{numa_node="0"} 2.0',
    ):
        assert line in shown
