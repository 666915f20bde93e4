"""The managers together: what a pod gets, what is found again, and what keeps a kubelet from starting."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from component import features
from component.clock import FakeClock
from component.errors import OperatorError
from component.metrics import Registry
from cri.fake import FakeContainerd
from node.kubelet.cm import container_manager
from node.kubelet.cm.container_manager import ContainerManager
from node.kubelet.cm.metrics import ResourceMetrics
from node.kubelet.config import KubeletConfig
from node.kubelet.runtime.resources import Pinning
from tests.support.numa import Shape

GI = 1 << 30
SHAPE = Shape(sockets=2, cores_per_node=4, memory=8 * GI, hugepages={})
RESERVED = tuple({"numaNode": node, "limits": {"memory": "1Gi"}} for node in (0, 1))


class Machine:
    """Files of a machine with two NUMA nodes, and of a kubelet on it."""

    def __init__(self, root: Path) -> None:
        self.sys = root / "sys"
        SHAPE.write(self.sys)
        (root / "kubelet").mkdir(exist_ok=True)
        self.config = KubeletConfig(
            root_dir=root / "kubelet",
            cpu_manager_policy="static",
            memory_manager_policy="Static",
            topology_manager_policy="single-numa-node",
            reserved_system_cpus="0,4",
            system_reserved={"memory": "2Gi"},
            reserved_memory=RESERVED,
            eviction_hard={},
        )

    def start(self, **changes: Any) -> ContainerManager:
        config = replace(self.config, **changes)
        kept = container_manager.load(config, self.sys)
        clock = FakeClock()
        runtime = FakeContainerd(clock=clock)
        metrics = ResourceMetrics(Registry(process=False))
        return container_manager.build(config, kept, runtime, dict, clock, metrics, {"memory": 2 * GI})


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def pod(cpu: str, memory: str, uid: str = "u") -> dict[str, Any]:
    listed = {"cpu": cpu, "memory": memory}
    main = {"name": "main", "resources": {"requests": listed, "limits": listed}}
    return {"metadata": {"uid": uid}, "spec": {"containers": [main]}}


def pinning(manager: ContainerManager, wanted: dict[str, Any]) -> Pinning:
    return manager.pinning(wanted, wanted["spec"]["containers"][0])


async def test_cpus_and_memory_come_from_one_node(machine: Machine) -> None:
    manager, wanted, small = machine.start(), pod("3", "4Gi"), pod("1", "6Gi", "v")

    assert await manager.admit(wanted) is None
    assert pinning(manager, wanted) == Pinning("1-3", "0", unlimited=True)
    assert manager.unlimited(wanted)
    assert await manager.admit(small) is None, "its memory fits on the other node alone"
    assert pinning(manager, small) == Pinning("5", "1", unlimited=True)
    assert await manager.admit(pod("3", "1Gi", "w")) == (
        "TopologyAffinityError",
        "Resources cannot be allocated with Topology locality",
    )
    assert pinning(manager, pod("500m", "1Gi", "x")) == Pinning("0,4,6-7")


async def test_a_successor_goes_on_and_forgets_who_is_gone(machine: Machine) -> None:
    before, here, gone = machine.start(), pod("2", "1Gi", "here"), pod("1", "1Gi", "gone")
    await before.admit(here)
    await before.admit(gone)

    manager = machine.start()
    assert await manager.admit(here) is None
    assert pinning(manager, here) == pinning(before, here)
    manager.sweep(["here"])
    assert await manager.admit(pod("1", "1Gi", "new")) is None
    assert pinning(manager, pod("1", "1Gi", "new")) == pinning(before, gone)


async def test_who_owns_cpus_may_be_rationed_all_the_same(machine: Machine) -> None:
    manager, wanted = machine.start(features=features.from_flag({"DisableCPUQuotaWithExclusiveCPUs": "false"})), pod("2", "1Gi")
    await manager.admit(wanted)

    assert not pinning(manager, wanted).unlimited
    assert not manager.unlimited(wanted)


async def test_nothing_is_pinned_by_default(machine: Machine, tmp_path: Path) -> None:
    plain = KubeletConfig(root_dir=tmp_path / "kubelet")
    changes = {name: getattr(plain, name) for name in KubeletConfig.__slots__ if name.endswith("_manager_policy")}
    manager, wanted = machine.start(**changes), pod("2", "1Gi")

    assert await manager.admit(wanted) is None
    assert pinning(manager, wanted) == Pinning()


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"reserved_system_cpus": ""}, "requires systemreserved.cpu \\+ kubereserved.cpu to be greater than zero"),
        ({"reserved_system_cpus": "0,9"}, "unable to reserve the required amount of CPUs"),
        ({"reserved_memory": RESERVED[:1]}, "is not equal to the value"),
        (
            {
                "cpu_manager_policy_options": {"align-by-socket": "true"},
                "features": features.from_flag({"CPUManagerPolicyAlphaOptions": "true"}),
            },
            "single-numa-node policy is incompatible with CPUManager align-by-socket policy option",
        ),
    ],
)
def test_what_does_not_go_together(machine: Machine, changes: dict[str, Any], wrong: str) -> None:
    with pytest.raises(OperatorError, match=wrong):
        machine.start(**changes)


async def test_what_was_kept_for_another_machine_or_policy(machine: Machine) -> None:
    await machine.start().admit(pod("2", "1Gi"))

    with pytest.raises(OperatorError, match=r"start cpu manager error: .* differs from state checkpoint policy"):
        machine.start(cpu_manager_policy="none")
    with pytest.raises(OperatorError, match=r"start memory manager error: .* differs from state checkpoint policy"):
        machine.start(memory_manager_policy="None")
    replace(SHAPE, cores_per_node=8).write(machine.sys)
    with pytest.raises(OperatorError, match=r"current set of available CPUs .* drain this node and delete the file"):
        machine.start()
    replace(SHAPE, memory=16 * GI).write(machine.sys)
    with pytest.raises(OperatorError, match="expected machine state is different from the real one; drain this node"):
        machine.start()


def test_a_machine_that_cannot_be_read(tmp_path: Path) -> None:
    config = KubeletConfig(root_dir=tmp_path)
    assert container_manager.load(config, tmp_path).topology.cpus == {}
    with pytest.raises(OperatorError, match="cannot tell the CPUs of this machine"):
        container_manager.load(replace(config, cpu_manager_policy="static"), tmp_path)
