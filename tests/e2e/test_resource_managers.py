"""Who asks for whole CPUs owns them: on real containers, seen from within them and from the kernel's files."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from apimachinery.resources import PODS
from client import kubeconfig
from client.rest import STRATEGIC
from component.errors import OperatorError
from node.kubelet.cgroups.manager import MOUNT, Cgroups
from node.kubelet.cgroups.plan import cpu_weight
from node.kubelet.cm import cpuset, topology
from node.kubelet.kubelet import Kubelet
from tests.support.control_plane import eventually
from tests.support.node import TestNode, is_ready, phase_is, running_node

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="module")]

EVERY = topology.read().all
RESERVED = frozenset({min(EVERY)})
WATCH = "while sleep 0.2; do grep -E '(Cpus|Mems)_allowed_list' /proc/self/status; done"
WHOLE = {"resources": {"limits": {"cpu": "1", "memory": "64Mi"}}}

if len(EVERY) < 2:
    pytest.skip("one CPU cannot be divided", allow_module_level=True)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[TestNode]:
    nodes = sorted(topology.read().nodes)
    async with running_node(
        cpu_manager_policy="static",
        reserved_system_cpus=cpuset.show(RESERVED),
        cpu_manager_reconcile_period=1.0,
        memory_manager_policy="Static",
        reserved_memory=({"numaNode": nodes[0], "limits": {"memory": "1Gi"}},),
        system_reserved={"memory": "1Gi"},
        eviction_hard={},
        topology_manager_policy="single-numa-node",
    ) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def node(shared: TestNode) -> AsyncIterator[TestNode]:
    yield shared
    await shared.delete_everything()
    await eventually(lambda: _nothing_owned(shared))


async def _nothing_owned(node: TestNode) -> bool:
    """A pod that was removed by force owns its CPU until it has ended."""
    return "entries" not in json.loads((node.config.root_dir / "cpu_manager_state").read_text())


async def allowed(node: TestNode, name: str) -> frozenset[int]:
    """Where the kernel lets the container's processes run now."""
    return await said(node, name, "Cpus")


async def said(node: TestNode, name: str, what: str) -> frozenset[int]:
    """CPUs or nodes: what the container says last in its log."""
    pod = await node.pod(name)
    assert pod is not None
    folder = node.config.pod_logs_dir / f"default_{name}_{pod['metadata']['uid']}" / "main"
    lines = [line for path in sorted(folder.glob("*.log")) for line in path.read_text().splitlines() if what in line]
    return cpuset.parse(lines[-1].split()[-1]) if lines else frozenset()


def quota(node: TestNode, pod: dict[str, Any], container_id: str = "") -> str:
    """The pod's or the container's CPU quota, from the kernel."""
    below = f"kubepods/pod{pod['metadata']['uid']}/{container_id}"
    for root, file in ((MOUNT / "cpu", "cpu.cfs_quota_us"), (MOUNT, "cpu.max")):
        path = Path(root, node.config.cgroup_root.strip("/"), below, file)
        if path.exists():
            return path.read_text().split()[0]
    raise AssertionError(f"{below} has no cgroup")


async def test_a_pod_owns_its_cpu_and_others_leave_it(node: TestNode) -> None:
    await node.create_pod("shared", script=WATCH)
    await node.wait_pod("shared", is_ready)
    await eventually(lambda: _is(node, "shared", EVERY))

    made = await node.create_pod("own", script=WATCH, container=WHOLE)
    before = await node.wait_pod("own", is_ready)
    await eventually(lambda: _owns_one(node))
    own = await allowed(node, "own")
    await eventually(lambda: _is(node, "shared", EVERY - own))
    kept = json.loads((node.config.root_dir / "memory_manager_state").read_text())
    (block,) = kept["entries"][made["metadata"]["uid"]]["main"]
    assert (block["type"], block["size"]) == ("memory", 64 << 20)
    assert await said(node, "own", "Mems") == frozenset(block["numaAffinity"])
    assert quota(node, made) in ("-1", "max"), "the pod has no need to be rationed"
    identity = before["status"]["containerStatuses"][0]["containerID"].partition("://")[2]
    assert quota(node, made, identity) in ("-1", "max")

    await node.restart_kubelet()
    await node.create_pod("late", script=WATCH)
    await node.wait_pod("late", is_ready)
    await eventually(lambda: _is(node, "late", EVERY - own))
    after = await node.wait_pod("own", is_ready)
    assert after["status"]["containerStatuses"] == before["status"]["containerStatuses"], "it was adopted as it ran"
    assert await allowed(node, "own") == own

    await node.client.delete(PODS, "own", "default", grace=0)
    await eventually(lambda: _is(node, "shared", EVERY))


async def test_a_container_that_restarts_comes_back_to_its_cpu(node: TestNode) -> None:
    script = "grep Cpus_allowed_list /proc/self/status; [ -e /tmp/x ] || sleep 0.3"
    await node.create_pod("again", script=script, container=WHOLE, restartPolicy="OnFailure")
    done = await node.wait_pod("again", phase_is("Succeeded"))
    assert len(await allowed(node, "again")) == 1
    assert done["status"]["qosClass"] == "Guaranteed"
    await node.create_pod("next", script=WATCH, container=WHOLE)
    await node.wait_pod("next", is_ready)
    await eventually(lambda: _owns_one(node, "next"))


async def test_what_is_owned_is_not_resized(node: TestNode) -> None:
    await node.create_pod("fixed", script="exec sleep 1000", container=WHOLE)
    await node.wait_pod("fixed", is_ready)
    less = {"limits": {"cpu": "500m", "memory": "64Mi"}, "requests": {"cpu": "500m", "memory": "64Mi"}}
    patch = {"spec": {"containers": [{"name": "main", "resources": less}]}}
    await node.client.patch(PODS, "fixed", patch, STRATEGIC, "default", subresource="resize")

    def refused(pod: dict[str, Any]) -> bool:
        return any(each["type"] == "PodResizePending" for each in pod["status"]["conditions"])

    pod = await node.wait_pod("fixed", refused)
    (pending,) = [each for each in pod["status"]["conditions"] if each["type"] == "PodResizePending"]
    assert pending["reason"] == "Infeasible"
    assert pending["message"] == 'Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"'


async def test_what_is_reserved_is_bounded_in_the_kernel(node: TestNode) -> None:
    """In the cgroups of this machine, below the root that this test owns."""
    root = node.config.cgroup_root
    cgroups = Cgroups(
        replace(
            node.config,
            enforce_node_allocatable=("pods", "system-reserved", "kube-reserved-compressible"),
            system_reserved={"cpu": "500m", "memory": "256Mi", "pid": "1000"},
            kube_reserved={"cpu": "250m", "memory": "256Mi"},
            reserved_system_cpus="",
            system_reserved_cgroup=f"{root}/system",
            kube_reserved_cgroup=f"{root}/kube",
        ),
        allocatable=lambda: {"cpu": "1"},
        pods_pids=20_000,
    )
    hierarchies = [MOUNT / each for each in ("cpu", "memory", "pids")] if cgroups.version == 1 else [MOUNT]
    for folder in (Path(hierarchy, root.strip("/"), name) for hierarchy in hierarchies for name in ("system", "kube")):
        folder.mkdir()
    await cgroups.enforce()

    def said(name: str, old: tuple[str, str], new: str) -> str:
        hierarchy, file = (MOUNT / old[0], old[1]) if cgroups.version == 1 else (MOUNT, new)
        return Path(hierarchy, root.strip("/"), name, file).read_text().strip()

    memory, pids = ("memory", "memory.limit_in_bytes"), ("pids", "pids.max")
    assert said("kubepods", pids, "pids.max") == "20000"
    assert said("system", memory, "memory.max") == str(256 << 20)
    assert said("system", pids, "pids.max") == "1000"
    assert said("kube", memory, "memory.max") != str(256 << 20)
    assert said("kube", ("cpu", "cpu.shares"), "cpu.weight") == ("256" if cgroups.version == 1 else str(cpu_weight(256)))


async def test_another_policy_needs_a_drained_node(node: TestNode) -> None:
    await node.stop_kubelet()
    try:
        changed = replace(node.config, cpu_manager_policy="none")
        with pytest.raises(OperatorError, match='configured policy "none" differs from state checkpoint policy "static"'):
            await Kubelet(changed, kubeconfig.load(node.server.kubeconfig_for("node-token"))).run()
    finally:
        await node.start_kubelet()


async def _is(node: TestNode, name: str, cpus: frozenset[int]) -> bool:
    return await allowed(node, name) == cpus


async def _owns_one(node: TestNode, name: str = "own") -> bool:
    own = await allowed(node, name)
    return len(own) == 1 and not own & RESERVED
