"""The device manager with a real plugin: what the node offers, who gets it, and what a restart changes."""

import asyncio
import json

import pytest

from component.metrics import Registry
from node.kubelet.cm.device_manager.checkpoint import NAME
from node.kubelet.cm.device_manager.run_options import NOTHING
from node.kubelet.cm.interface import TopologyHint
from node.kubelet.cm.metrics import ResourceMetrics
from node.kubelet.cm.topology_manager.manager import TopologyManager
from node.kubelet.cm.topology_manager.options import Options
from tests.support.device_plugin import RESOURCE, NullPlugin, running_device_plugin
from tests.unit.node.kubelet.cm.device_manager.conftest import Kubelet, asking, container, until


def offers(kubelet: Kubelet) -> tuple[int | None, int | None]:
    capacity, allocatable = kubelet.manager.capacity()
    return capacity.get(RESOURCE), allocatable.get(RESOURCE)


async def test_health_lowers_what_can_be_allocated(kubelet: Kubelet, plugin: NullPlugin) -> None:
    async with kubelet.running(), running_device_plugin(plugin):
        assert offers(kubelet) == (None, None)
        await plugin.register()
        await until(lambda: offers(kubelet) == (2, 2))
        await plugin.change(d1="Unhealthy")
        await until(lambda: offers(kubelet) == (2, 1))
        await plugin.change(d1="", d2="Healthy", d3="Healthy")
        await until(lambda: offers(kubelet) == (3, 3))
        await kubelet.clock.advance(1)
        assert kubelet.changes == 2  # the first at once, those within a second of it together


async def test_a_plugin_that_flutters_does_not_keep_the_node_busy(kubelet: Kubelet, plugin: NullPlugin) -> None:
    async with kubelet.running(), running_device_plugin(plugin):
        await plugin.register()
        await until(lambda: offers(kubelet) == (2, 2))
        await kubelet.clock.advance(1)
        before = kubelet.changes
        for _ in range(20):
            await plugin.change(d1="Unhealthy")
            await until(lambda: offers(kubelet) == (2, 1))
            await plugin.change(d1="Healthy")
            await until(lambda: offers(kubelet) == (2, 2))
        await kubelet.clock.advance(1)
        assert kubelet.changes - before <= 2
        await plugin.change(d1="Healthy")  # says the same again
        await kubelet.clock.advance(5)
        assert kubelet.changes - before <= 2


async def test_a_plugin_that_goes_is_remembered_for_five_minutes(kubelet: Kubelet, plugin: NullPlugin) -> None:
    async with kubelet.running():
        async with running_device_plugin(plugin):
            await plugin.register()
            await until(lambda: offers(kubelet) == (2, 2))
        await until(lambda: offers(kubelet) == (2, 0))
        refused = await kubelet.admit(asking("u"))
        what = f"no healthy devices present; cannot allocate unhealthy devices {RESOURCE}"
        assert refused == f"Allocate failed due to {what}, which is unexpected"
        await kubelet.clock.advance(300)
        assert offers(kubelet) == (2, 0)
        await kubelet.clock.advance(1)
        assert offers(kubelet) == (0, 0)
        assert await kubelet.admit(asking("v")) == ""  # nobody's resource any more: the node object decides
        assert kubelet.held("v") == {}
        async with running_device_plugin(plugin):
            await plugin.register()
            await until(lambda: offers(kubelet) == (2, 2))


async def test_devices_are_given_once(kubelet: Kubelet, plugin: NullPlugin) -> None:
    async with kubelet.running() as manager, running_device_plugin(plugin):
        await plugin.register()
        await until(lambda: offers(kubelet) == (2, 2))
        assert await kubelet.admit(asking("u", 2)) == ""
        assert kubelet.held("u") == {RESOURCE: "d0,d1"}
        refused = await kubelet.admit(asking("v"))
        what = f"requested number of devices unavailable for {RESOURCE}. Requested: 1, Available: 0"
        assert refused == f"Allocate failed due to {what}, which is unexpected"
        assert manager.managed() == {RESOURCE}
        manager.collect({"u"})
        assert kubelet.held("u")
        manager.collect({"somebody else"})
        assert await kubelet.admit(asking("v", 2)) == ""
        assert (
            kubelet.metrics.collectors.get_sample_value(
                "kubelet_device_plugin_alloc_duration_seconds_count", {"resource_name": RESOURCE}
            )
            == 2
        )
        assert (
            kubelet.metrics.collectors.get_sample_value("kubelet_device_plugin_registration_total", {"resource_name": RESOURCE})
            == 1
        )


async def test_what_is_given_is_on_the_disk_before_the_pod_runs(kubelet: Kubelet, plugin: NullPlugin) -> None:
    async with kubelet.running(), running_device_plugin(plugin):
        await plugin.register()
        await until(lambda: offers(kubelet) == (2, 2))
        assert await kubelet.admit(asking("u")) == ""
        data = json.loads((kubelet.folder / NAME).read_bytes())["Data"]
        assert [(each["PodUID"], each["DeviceIDs"]) for each in data["PodDeviceEntries"]] == [("u", {"-1": ["d0"]})]
        assert data["RegisteredDevices"] == {RESOURCE: ["d0", "d1"]}
        kubelet.manager.forget("u")
        await until(lambda: json.loads((kubelet.folder / NAME).read_bytes())["Data"]["PodDeviceEntries"] is None)


async def test_a_restarted_kubelet_knows_who_has_what(kubelet: Kubelet, plugin: NullPlugin) -> None:
    assert kubelet.manager.fresh
    async with kubelet.running(), running_device_plugin(plugin):
        await plugin.register()
        await until(lambda: offers(kubelet) == (2, 2))
        assert await kubelet.admit(asking("runs")) == ""
    kubelet.restart()
    async with kubelet.running() as manager:
        assert not manager.fresh
        assert not plugin.socket.exists()  # by which it sees that it must register again
        assert offers(kubelet) == (0, 0)
        kubelet.there.add("runs")
        assert await kubelet.admit(asking("runs")) == ""  # adopted
        assert (await manager.run_options(asking("runs"), container("c"))).environment == {"DEVICES": "d0"}
        no_devices = f"no healthy devices present; cannot allocate unhealthy devices {RESOURCE}"
        assert no_devices in await kubelet.admit(asking("new"))
        async with running_device_plugin(plugin):
            await plugin.register()
            await until(lambda: offers(kubelet) == (2, 2))
            assert kubelet.held("runs") == {RESOURCE: "d0"}
            manager.forget("runs")  # it could not be let in for another reason, but it runs
            assert kubelet.held("runs") == {RESOURCE: "d0"}
            assert "Requested: 2, Available: 1" in await kubelet.admit(asking("new", 2))
            assert await kubelet.admit(asking("new", 1)) == ""
            assert kubelet.held("new") == {RESOURCE: "d1"}


async def test_after_a_reboot_a_pod_needs_its_devices_healthy_again(kubelet: Kubelet, plugin: NullPlugin) -> None:
    async with kubelet.running(), running_device_plugin(plugin):
        await plugin.register()
        await until(lambda: offers(kubelet) == (2, 2))
        assert await kubelet.admit(asking("old")) == ""
    kubelet.restart()
    async with kubelet.running() as manager:
        await manager.prepare(asking("old"))  # has its answer already
        with pytest.raises(Exception, match="no healthy devices present"):
            await manager.allocate(asking("old"), container("c"))
        plugin.health = {"d0": "Unhealthy", "d1": "Healthy"}
        async with running_device_plugin(plugin):
            await plugin.register()
            await until(lambda: offers(kubelet) == (2, 1))
            with pytest.raises(Exception, match="previously allocated devices are no longer healthy"):
                await manager.allocate(asking("old"), container("c"))
            await plugin.change(d0="Healthy")
            await until(lambda: offers(kubelet) == (2, 2))
            await manager.allocate(asking("old"), container("c"))
            with pytest.raises(Exception, match=r"changed request for resource .* from 1 to 2"):
                await manager.allocate(asking("old"), container("c", 2))


async def test_a_damaged_checkpoint_does_not_stop_the_node(kubelet: Kubelet, plugin: NullPlugin) -> None:
    kubelet.folder.mkdir()
    (kubelet.folder / NAME).write_text('{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":1}')
    kubelet.restart()
    async with kubelet.running(), running_device_plugin(plugin):
        await plugin.register()
        await until(lambda: offers(kubelet) == (2, 2))
        assert await kubelet.admit(asking("u")) == ""


async def test_init_containers_hand_on_what_they_had(kubelet: Kubelet, plugin: NullPlugin) -> None:
    plugin.health = {f"d{number}": "Healthy" for number in range(5)}
    init = [container("i1", 2), container("i2", 3), container("side", restartPolicy="Always"), container("i3", 2)]
    async with kubelet.running(), running_device_plugin(plugin):
        await plugin.register()
        await until(lambda: offers(kubelet) == (5, 5))
        pod = asking("u", 3, initContainers=init)
        assert await kubelet.admit(pod) == ""
        given = {name: set(kubelet.held("u", name)[RESOURCE].split(",")) for name in ("i1", "i2", "side", "i3", "c")}
        assert given["i1"] < given["i2"]
        assert given["side"] < given["i2"]
        assert not given["side"] & (given["i3"] | given["c"])  # a sidecar runs beside them
        assert given["i3"] < given["c"]
        assert len(given["i1"] | given["i2"] | given["side"] | given["i3"] | given["c"]) == 4


async def test_plugins_may_prefer_some_devices(kubelet: Kubelet, plugin: NullPlugin) -> None:
    plugin.health = {f"d{number}": "Healthy" for number in range(4)}
    plugin.options.get_preferred_allocation_available = True
    plugin.preferred = ["d3", "d1"]
    async with kubelet.running(), running_device_plugin(plugin):
        await plugin.register()
        await until(lambda: offers(kubelet) == (4, 4))
        assert await kubelet.admit(asking("u", 2)) == ""
        (asked,) = plugin.requests("GetPreferredAllocation")[0].container_requests
        assert (list(asked.available_device_ids), asked.allocation_size) == (["d0", "d1", "d2", "d3"], 2)
        assert kubelet.held("u") == {RESOURCE: "d1,d3"}
        init = asking("v", 2, initContainers=[container("i")])
        assert await kubelet.admit(init) == ""
        assert kubelet.held("v", "i")[RESOURCE] in kubelet.held("v")[RESOURCE].split(",")
        kubelet.manager.forget("v")
        plugin.failing["GetPreferredAllocation"] = "no idea"
        what = "device plugin GetPreferredAllocation rpc failed with err: rpc error: code = Unknown desc = no idea"
        assert what in await kubelet.admit(asking("w"))
        assert await kubelet.admit(asking("x", 2)) != ""
        plugin.failing.clear()
        assert await kubelet.admit(asking("w", 2)) == ""


async def test_numa_nodes(kubelet: Kubelet, plugin: NullPlugin) -> None:
    plugin.health = {f"d{number}": "Healthy" for number in range(4)}
    plugin.nodes = {"d0": [0], "d1": [0], "d2": [1], "d3": [1]}
    async with kubelet.running() as manager, running_device_plugin(plugin):
        await plugin.register()
        await until(lambda: offers(kubelet) == (4, 4))
        one, both = frozenset({1}), frozenset({0, 1})
        kubelet.hints["u", "c"] = TopologyHint(one, True)
        assert await kubelet.admit(asking("u", 1)) == ""
        assert kubelet.held("u") == {RESOURCE: "d2"}
        assert manager.topology_hints(asking("u"), container("c")) == {
            RESOURCE: [TopologyHint(one, True), TopologyHint(both, False)]
        }  # where it has it
        found = manager.topology_hints(asking("v"), container("c", 2))[RESOURCE]
        assert found == [TopologyHint(frozenset({0}), True), TopologyHint(both, False)]
        assert manager.topology_hints(asking("v"), container("c", 4)) == {RESOURCE: []}
        assert manager.topology_hints(asking("v"), {"name": "c"}) == {}
        assert manager.pod_topology_hints(asking("v", 2))[RESOURCE] == found


@pytest.mark.parametrize("scope", ["container", "pod"])
async def test_with_the_topology_manager(kubelet: Kubelet, plugin: NullPlugin, scope: str) -> None:
    plugin.health = {f"d{number}": "Healthy" for number in range(4)}
    plugin.nodes = {"d0": [0], "d1": [1], "d2": [1], "d3": [0, 1]}
    async with kubelet.running() as manager, running_device_plugin(plugin):
        await plugin.register()
        await until(lambda: offers(kubelet) == (4, 4))
        metrics = ResourceMetrics(Registry(process=False))
        kubelet.topology = topology = TopologyManager("single-numa-node", scope, Options(), {0, 1}, {}, metrics)
        topology.add(manager)
        assert await topology.admit(asking("three", 3)) is None
        assert kubelet.held("three") == {RESOURCE: "d1,d2,d3"}
        await manager.prepare(asking("three", 3))
        refused = ("TopologyAffinityError", "Resources cannot be allocated with Topology locality")
        topology.forget("three")
        assert await topology.admit(asking("four", 4)) == refused
        assert kubelet.held("four") == {}
        assert await topology.admit(asking("one", 1)) is None
        assert kubelet.held("one") == {RESOURCE: "d0"}
        assert await topology.admit(asking("two", 2)) is None  # only one node has two of them left
        assert kubelet.held("two") == {RESOURCE: "d1,d2"}


async def test_devices_without_a_place_do_not_mind(kubelet: Kubelet, plugin: NullPlugin) -> None:
    async with kubelet.running() as manager, running_device_plugin(plugin):
        await plugin.register()
        await until(lambda: offers(kubelet) == (2, 2))
        assert manager.topology_hints(asking("u"), container("c")) == {RESOURCE: None}


async def test_a_plugin_that_refuses_gives_nothing(kubelet: Kubelet, plugin: NullPlugin) -> None:
    plugin.failing["Allocate"] = "on fire"
    async with kubelet.running(), running_device_plugin(plugin):
        await plugin.register()
        await until(lambda: offers(kubelet) == (2, 2))
        refused = await kubelet.admit(asking("u", 2))
        assert refused == "Allocate failed due to rpc error: code = Unknown desc = on fire, which is unexpected"
        plugin.failing.clear()
        assert await kubelet.admit(asking("v", 2)) == ""


async def test_a_plugin_that_hangs_holds_up_its_own_pod_alone(kubelet: Kubelet, plugin: NullPlugin) -> None:
    plugin.hanging.add("Allocate")
    other = NullPlugin(plugin.folder, plugin.devices, "example.com/zero", "zero.sock")
    async with kubelet.running(), running_device_plugin(plugin), running_device_plugin(other):
        await plugin.register()
        await other.register()
        await until(lambda: offers(kubelet) == (2, 2) and kubelet.manager.capacity()[1].get("example.com/zero"))
        stuck = asyncio.create_task(kubelet.admit(asking("stuck")))
        await until(lambda: plugin.requests("Allocate"))
        assert await kubelet.admit(asking("u", resource="example.com/zero")) == ""
        assert await kubelet.admit(asking("v", 2)) != ""  # the device of the other is kept for it
        assert not stuck.done()
        plugin.go_on.set()
        assert await stuck == ""


async def test_a_plugin_that_dies_in_the_middle_fails_the_pod(kubelet: Kubelet, plugin: NullPlugin) -> None:
    plugin.hanging.add("Allocate")
    async with kubelet.running():
        async with running_device_plugin(plugin):
            await plugin.register()
            await until(lambda: offers(kubelet) == (2, 2))
            stuck = asyncio.create_task(kubelet.admit(asking("u")))
            await until(lambda: plugin.requests("Allocate"))
            plugin.go_on.set()
            plugin.failing["Allocate"] = "dying"
        assert "which is unexpected" in await stuck


async def test_a_pod_whose_plugin_is_replaced_meanwhile_fails(kubelet: Kubelet, plugin: NullPlugin) -> None:
    plugin.hanging.add("Allocate")
    other = NullPlugin(plugin.folder, plugin.devices, name="other.sock")
    async with kubelet.running(), running_device_plugin(plugin), running_device_plugin(other):
        await plugin.register()
        await until(lambda: offers(kubelet) == (2, 2))
        stuck = asyncio.create_task(kubelet.admit(asking("u")))
        await until(lambda: plugin.requests("Allocate"))
        await other.register()
        async with asyncio.timeout(5):
            assert "code = Canceled desc = the device plugin has gone" in await stuck
        assert await kubelet.admit(asking("u", 2)) == ""


async def test_what_a_container_is_started_with(kubelet: Kubelet, plugin: NullPlugin) -> None:
    plugin.options.pre_start_required = True
    async with kubelet.running() as manager, running_device_plugin(plugin):
        await plugin.register()
        await until(lambda: offers(kubelet) == (2, 2))
        pod = asking("u", 2)
        assert await kubelet.admit(pod) == ""
        options = await manager.run_options(pod, pod["spec"]["containers"][0])
        assert options.environment == {"DEVICES": "d0,d1"}
        assert [(each.container_path, each.permissions) for each in options.devices] == [("/dev/d0", "rw"), ("/dev/d1", "rw")]
        assert [(each.container_path, each.read_only) for each in options.mounts] == [("/devices", True)]
        assert [list(each.device_ids) for each in plugin.requests("PreStartContainer")] == [["d0", "d1"]]
        assert await manager.run_options(pod, {"name": "other"}) == NOTHING
        plugin.failing["PreStartContainer"] = "not now"
        with pytest.raises(Exception, match="device plugin PreStartContainer rpc failed with err: rpc error: code = Unknown"):
            await manager.run_options(pod, pod["spec"]["containers"][0])


async def test_a_resource_that_came_after_its_pod(kubelet: Kubelet, plugin: NullPlugin) -> None:
    async with kubelet.running() as manager, running_device_plugin(plugin):
        pod = asking("u")
        assert await kubelet.admit(pod) == ""
        assert await manager.run_options(pod, pod["spec"]["containers"][0]) == NOTHING
        await plugin.register()
        await until(lambda: offers(kubelet) == (2, 2))
        assert (await manager.run_options(pod, pod["spec"]["containers"][0])).environment == {"DEVICES": "d0"}


async def test_health_of_what_a_container_has(kubelet: Kubelet, plugin: NullPlugin) -> None:
    async with kubelet.running() as manager, running_device_plugin(plugin):
        await plugin.register()
        await until(lambda: offers(kubelet) == (2, 2))
        assert await kubelet.admit(asking("u", 2)) == ""
        assert kubelet.nudged == []
        await plugin.change(d1="Overheated")
        await until(lambda: offers(kubelet) == (2, 1))
        assert kubelet.nudged == ["u"]
        ids = [{"resourceID": "d0", "health": "Healthy"}, {"resourceID": "d1", "health": "Unhealthy"}]
        assert manager.health("u", "c") == [{"name": RESOURCE, "resources": ids}]
        assert manager.health("u", "other") == []
