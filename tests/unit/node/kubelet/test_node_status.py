"""The Node object and its lease: registration, conditions, and how little is sent."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from apimachinery import errors as api_errors
from client.rest import Client
from component.clock import FakeClock
from node.kubelet import machine
from node.kubelet.config import KubeletConfig
from node.kubelet.lease import NodeLease
from node.kubelet.machine import Machine
from node.kubelet.node_status import NodeReporter, RuntimeFacts, allocatable, capacity, conditions, node_status, pods_pids
from tests.support.pod_workers import EventList

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MACHINE = Machine(4, 8 << 30, 100 << 30, os_image="Debian", hugepages={"hugepages-2Mi": 0})
CONFIG = KubeletConfig(node_name="n", node_labels={"a": "b"}, kube_reserved={"cpu": "500m"}, system_reserved={"memory": "1Gi"})


def test_huge_pages_are_capacity_of_their_own_and_no_memory() -> None:
    machine = replace(MACHINE, hugepages={"hugepages-1Gi": 1 << 30, "hugepages-2Mi": 64 << 20})
    given, left = (
        capacity(KubeletConfig(), machine),
        allocatable(KubeletConfig(eviction_hard={}), machine),
    )

    assert (given["hugepages-1Gi"], left["hugepages-2Mi"]) == ("1Gi", "64Mi")
    assert given["memory"] == f"{8 << 20}Ki"
    assert left["memory"] == "7104Mi"
    assert machine.hugepage_sizes == (1 << 30, 2 << 20)


def test_processes_are_kept_for_the_system() -> None:
    machine = replace(MACHINE, max_pids=1000)

    assert pods_pids(KubeletConfig(system_reserved={"pid": "200"}, kube_reserved={"pid": "100"}), machine) == 700
    assert pods_pids(KubeletConfig(enforce_node_allocatable=()), machine) is None
    assert pods_pids(KubeletConfig(), MACHINE) is None


def test_cpus_reserved_by_number_are_not_allocatable() -> None:
    config = KubeletConfig(reserved_system_cpus="0,3", kube_reserved={"cpu": "1"}, system_reserved={"cpu": "1"})

    assert allocatable(config, MACHINE)["cpu"] == "2"


def test_allocatable_is_what_is_not_reserved() -> None:
    left = allocatable(CONFIG, MACHINE)
    assert left["cpu"] == "3500m"
    assert left["memory"] == "7068Mi", "100Mi are kept free by eviction"
    assert left["ephemeral-storage"] == "90Gi", "a tenth is kept free"
    assert left["pods"] == "110"
    assert left["hugepages-2Mi"] == "0"


def test_conditions_keep_their_transition() -> None:
    bad = conditions({}, ["no network"], NOW)
    ready = next(each for each in bad if each["type"] == "Ready")
    assert (ready["status"], ready["reason"], ready["message"]) == ("False", "KubeletNotReady", "no network")
    later = conditions({"status": {"conditions": bad}}, ["no network"], NOW.replace(hour=1))
    assert [each["lastTransitionTime"] for each in later] == [each["lastTransitionTime"] for each in bad]
    assert later[0]["lastHeartbeatTime"] != bad[0]["lastHeartbeatTime"]


def test_pressure_is_a_condition() -> None:
    told = conditions({}, [], NOW, ["DiskPressure"])
    assert {each["type"]: (each["status"], each["reason"]) for each in told} == {
        "MemoryPressure": ("False", "KubeletHasSufficientMemory"),
        "DiskPressure": ("True", "KubeletHasDiskPressure"),
        "PIDPressure": ("False", "KubeletHasSufficientPID"),
        "Ready": ("True", "KubeletReady"),
    }


def test_the_status_describes_the_machine() -> None:
    status = node_status({}, CONFIG, MACHINE, RuntimeFacts("containerd://1.6.20"), ["192.0.2.1"], NOW)
    assert status["addresses"] == [{"type": "InternalIP", "address": "192.0.2.1"}, {"type": "Hostname", "address": "n"}]
    assert status["nodeInfo"]["containerRuntimeVersion"] == "containerd://1.6.20"
    assert status["daemonEndpoints"]["kubeletEndpoint"]["Port"] == 10250


def test_what_others_count_into_the_capacity_may_be_allocated() -> None:
    held = {
        "status": {
            "capacity": {"cpu": "99", "example.com/gpu": "3"},
            "allocatable": {"cpu": "99", "example.com/old": "1"},
        }
    }
    status = node_status(held, CONFIG, MACHINE, RuntimeFacts("containerd://1.6.20"), [], NOW)
    assert status["allocatable"]["example.com/gpu"] == "3"
    assert status["allocatable"]["example.com/old"] is None
    assert status["allocatable"]["cpu"] == "3500m"
    assert "example.com/gpu" not in status["capacity"], "it is left to whoever counts it"


def test_devices_are_counted() -> None:
    held = {"status": {"capacity": {"example.com/gpu": "9", "example.com/patched": "3"}}}
    offer = ({"example.com/gpu": 4, "example.com/gone": 0}, {"example.com/gpu": 3, "example.com/gone": 0})
    status = node_status(held, CONFIG, MACHINE, RuntimeFacts("containerd://1.6.20"), [], NOW, offer)
    assert (status["capacity"]["example.com/gpu"], status["allocatable"]["example.com/gpu"]) == ("4", "3")
    assert (status["capacity"]["example.com/gone"], status["allocatable"]["example.com/gone"]) == ("0", "0")
    assert status["allocatable"]["example.com/patched"] == "3"


class _Api:
    """One node and one lease."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.patches: list[dict[str, Any]] = []
        self.renewals = 0
        self.failing = False

    async def create(self, gvr: Any, obj: dict[str, Any]) -> dict[str, Any]:
        if gvr.resource in self.objects:
            raise api_errors.already_exists(gvr.resource, obj["metadata"]["name"])
        self.objects[gvr.resource] = {**obj, "metadata": {**obj["metadata"], "uid": "node-uid"}}
        return self.objects[gvr.resource]

    async def get(self, gvr: Any, name: str, namespace: str | None = None) -> dict[str, Any]:
        if gvr.resource not in self.objects:
            raise api_errors.not_found(gvr.resource, name)
        return self.objects[gvr.resource]

    async def update(self, gvr: Any, obj: dict[str, Any]) -> dict[str, Any]:
        if self.failing:
            raise api_errors.internal("down")
        self.renewals += 1
        self.objects[gvr.resource] = obj
        return obj

    async def patch(
        self, gvr: Any, name: str, body: dict[str, Any], kind: Any, *, subresource: str | None = None
    ) -> dict[str, Any]:
        self.patches.append(body)
        held = self.objects[gvr.resource]
        self.objects[gvr.resource] = {**held, "status": {**held.get("status", {}), **body.get("status", {})}}
        return self.objects[gvr.resource]


def _reporter(api: _Api, clock: FakeClock, problems: list[str], events: EventList) -> NodeReporter:
    async def look() -> RuntimeFacts:
        return RuntimeFacts("containerd://1.6.20", list(problems))

    return NodeReporter(cast("Client", api), clock, CONFIG, MACHINE, ["192.0.2.1"], look, events)


async def test_registration_then_silence_until_something_changes() -> None:
    api, clock, problems, events = _Api(), FakeClock(), ["no network"], EventList()
    task = asyncio.ensure_future(_reporter(api, clock, problems, events).run())
    await clock.advance(1)
    node = api.objects["nodes"]
    assert node["metadata"]["labels"]["a"] == "b"
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "n"
    assert len(api.patches) == 1
    problems.clear()
    await clock.advance(1)
    assert len(api.patches) == 2, "a node that becomes Ready says so at once"
    assert set(api.patches[1]["status"]) == {"conditions"}
    assert events.reasons() == ["Starting", "NodeReady"]
    await clock.advance(200)
    assert len(api.patches) == 2
    await clock.advance(120)
    assert len(api.patches) == 3, "every five minutes in any case"
    task.cancel()
    await asyncio.wait({task})


async def test_the_runtime_is_looked_at_while_there_is_no_api_server() -> None:
    api, clock, looks = _Api(), FakeClock(), 0

    async def create(*arguments: Any) -> dict[str, Any]:
        raise ConnectionError("down")

    async def look() -> RuntimeFacts:
        nonlocal looks
        looks += 1
        return RuntimeFacts()

    api.create = create  # type: ignore[method-assign]
    reporter = NodeReporter(cast("Client", api), clock, CONFIG, MACHINE, ["192.0.2.1"], look, EventList())
    task = asyncio.ensure_future(reporter.run())
    await clock.advance(3)
    assert looks >= 3
    task.cancel()
    await asyncio.wait({task})


async def test_an_existing_node_gets_its_labels_right() -> None:
    api, clock = _Api(), FakeClock()
    api.objects["nodes"] = {"metadata": {"name": "n", "labels": {"kubernetes.io/os": "linux", "mine": "1"}}}
    await _reporter(api, clock, [], EventList()).register()
    (patch,) = api.patches
    assert "kubernetes.io/os" not in patch["metadata"]["labels"]
    assert patch["metadata"]["labels"]["a"] == "b"


async def test_devices_of_a_machine_that_was_replaced_are_gone() -> None:
    api, clock, fresh = _Api(), FakeClock(), True
    listed = {"cpu": "4", "example.com/gpu": "2", "example.com/none": "0"}
    labels = {"kubernetes.io/hostname": "n", "a": "b"}
    api.objects["nodes"] = {"metadata": {"name": "n", "labels": labels}, "status": {"capacity": listed}}

    async def look() -> RuntimeFacts:
        return RuntimeFacts()

    reporter = NodeReporter(cast("Client", api), clock, CONFIG, MACHINE, [], look, EventList(), fresh=lambda: fresh)
    await reporter.register()
    none = {"example.com/gpu": "0"}
    assert api.patches[-1] == {"status": {"capacity": none, "allocatable": none}}
    fresh = False
    before = len([patch for patch in api.patches if "status" in patch])
    await reporter.register()
    assert len([patch for patch in api.patches if "status" in patch]) == before


async def test_the_lease_is_renewed_four_times_in_its_duration() -> None:
    api, clock = _Api(), FakeClock()
    api.objects["nodes"] = {"metadata": {"name": "n", "uid": "node-uid"}}
    task = asyncio.ensure_future(NodeLease(cast("Client", api), clock, "n", 40).run())
    await clock.settle()
    lease = api.objects["leases"]
    assert lease["spec"]["holderIdentity"] == "n"
    assert lease["metadata"]["ownerReferences"][0]["uid"] == "node-uid"
    await clock.advance(40)
    assert api.renewals == 4
    api.failing = True
    await clock.advance(15)
    api.failing = False
    await clock.advance(8)
    assert api.renewals >= 5
    task.cancel()
    await asyncio.wait({task})


def test_machine_facts() -> None:
    facts = machine.read_machine(Path("/nonexistent/below"))
    assert facts.cpus > 0
    assert facts.memory_bytes > 1 << 20
    assert facts.max_pids > 0
    assert machine.os_release('NAME=x\nPRETTY_NAME="Debian 12"\n') == "Debian 12"
    assert machine.default_address("127.0.0.1:6443") == "127.0.0.1"
