"""From a pod's admission to its container's configuration: over the fake runtime, with a real plugin."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from component.metrics import Registry
from node.kubelet.cm.container_manager import ContainerManager
from node.kubelet.cm.cpu_manager.manager import CpuManager
from node.kubelet.cm.device_manager.api import deviceplugin_v1beta1_pb2 as pb
from node.kubelet.cm.memory_manager.manager import MemoryManager
from node.kubelet.cm.metrics import ResourceMetrics
from node.kubelet.cm.topology_manager.manager import TopologyManager
from node.kubelet.cm.topology_manager.options import Options
from node.kubelet.runtime.manager import RuntimeManager
from tests.support.device_plugin import RESOURCE, NullPlugin, running_device_plugin
from tests.support.pod_workers import Bench, container, pod, running_workers
from tests.unit.node.kubelet.cm.device_manager.conftest import Kubelet, until


@asynccontextmanager
async def a_node(kubelet: Kubelet, plugin: NullPlugin, folder: Path) -> AsyncIterator[Bench]:
    async with kubelet.running() as devices, running_device_plugin(plugin), running_workers(folder) as bench:
        await plugin.register()
        await until(lambda: devices.capacity()[1] == {RESOURCE: 2})
        metrics = ResourceMetrics(Registry(process=False))
        topology = TopologyManager("none", "container", Options(), {0}, {}, metrics)
        cpus = CpuManager(None, folder / "cpus", bench.runtime, dict, bench.clock, 10.0, metrics)
        managers = ContainerManager(topology, cpus, MemoryManager(None, folder / "memory", metrics))
        managers.add_devices(devices, tell_health=True)
        host = replace(bench.tools.host, device_options=devices.run_options)
        bench.tools = replace(bench.tools, host=host, manager=RuntimeManager(host), managers=managers)
        bench.workers._tools = bench.tools
        yield bench


def asking(name: str, count: int = 1) -> dict[str, Any]:
    return pod(
        name, containers=[container("main", resources={"limits": {RESOURCE: str(count)}}, env=[{"name": "B", "value": "pod"}])]
    )


async def test_what_the_plugin_says_reaches_the_runtime(kubelet: Kubelet, plugin: NullPlugin, tmp_path: Path) -> None:
    plugin.answers = pb.ContainerAllocateResponse(
        envs={"A": "plugin", "B": "plugin"},
        mounts=[pb.Mount(host_path="/lib/x", container_path="/x", read_only=True)],
        devices=[pb.DeviceSpec(host_path="/dev/x0", container_path="/dev/x", permissions="rm")],
        annotations={"vendor.example.com/x": "y", "io.kubernetes.container.hash": "not this"},
        cdi_devices=[pb.CDIDevice(name="vendor.example.com/x=0")],
    )
    async with a_node(kubelet, plugin, tmp_path) as bench:
        web = asking("web")
        bench.apply(web)
        await until(lambda: bench.runtime.running())
        (made,) = bench.runtime.containers.values()
        config = made.config
        environment = {each.key: each.value for each in config.envs}
        assert (environment["A"], environment["B"]) == (b"plugin", b"pod")
        assert [(each.host_path, each.readonly) for each in config.mounts if each.container_path == "/x"] == [("/lib/x", True)]
        assert [(each.host_path, each.container_path, each.permissions) for each in config.devices] == [
            ("/dev/x0", "/dev/x", "rm")
        ]
        assert [each.name for each in config.CDI_devices] == ["vendor.example.com/x=0"]
        assert config.annotations["vendor.example.com/x"] == "y"
        assert config.annotations["io.kubernetes.container.hash"] != "not this"
        health = [{"name": RESOURCE, "resources": [{"resourceID": "d0", "health": "Healthy"}]}]
        await until(lambda: bench.status(web)["containerStatuses"][0].get("allocatedResourcesStatus") == health)
        bench.delete(web, grace=1)
        await bench.advance_until(lambda: not kubelet.held("uid-web", "main"))


async def test_a_pod_whose_plugin_refuses_has_failed(kubelet: Kubelet, plugin: NullPlugin, tmp_path: Path) -> None:
    plugin.failing["Allocate"] = "on fire"
    async with a_node(kubelet, plugin, tmp_path) as bench:
        bad, good = asking("bad", 2), asking("good", 2)
        bench.apply(bad)
        await until(lambda: bench.status(bad).get("phase") == "Failed")
        status = bench.status(bad)
        told = "Allocate failed due to rpc error: code = Unknown desc = on fire, which is unexpected"
        assert (status["reason"], status["message"]) == ("UnexpectedAdmissionError", f"Pod was rejected: {told}")
        assert ("UnexpectedAdmissionError", told) in bench.events.seen
        plugin.failing.clear()
        bench.apply(good)  # nothing is kept for the one that failed
        await until(lambda: bench.runtime.running())


async def test_a_container_whose_plugin_does_not_prepare_it_waits(kubelet: Kubelet, plugin: NullPlugin, tmp_path: Path) -> None:
    plugin.options.pre_start_required = True
    plugin.failing["PreStartContainer"] = "resetting"
    async with a_node(kubelet, plugin, tmp_path) as bench:
        web = asking("web")
        bench.apply(web)
        await until(lambda: bench.state(web).get("waiting", {}).get("reason") == "CreateContainerConfigError")
        what = "device plugin PreStartContainer rpc failed with err: rpc error: code = Unknown desc = resetting"
        assert bench.state(web)["waiting"]["message"] == what
        plugin.failing.clear()
        await bench.clock.advance(10)
        await until(lambda: bench.runtime.running())


async def test_a_pod_that_is_deleted_while_its_plugin_hangs(kubelet: Kubelet, plugin: NullPlugin, tmp_path: Path) -> None:
    plugin.hanging.add("Allocate")
    async with a_node(kubelet, plugin, tmp_path) as bench:
        stuck, other = asking("stuck", 2), pod("other")
        bench.apply(stuck)
        await until(lambda: plugin.requests("Allocate"))
        bench.apply(other)
        await until(lambda: bench.runtime.running())  # held up by nothing
        bench.delete(stuck, grace=1)
        await until(lambda: not kubelet.held("uid-stuck", "main"))
