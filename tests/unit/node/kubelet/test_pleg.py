"""Observing the runtime: truth once a second, quick where it matters, cheap when nothing happens."""

import asyncio

from component.clock import FakeClock
from cri import errors
from cri.api import runtime_v1_pb2 as pb
from cri.fake import FakeContainerd
from node.kubelet.pleg import Pleg
from node.kubelet.runtime import names
from node.kubelet.runtime.observed import State


async def _start(runtime: FakeContainerd, uid: str = "u") -> str:
    labels = {names.POD_UID: uid, names.POD_NAME: "web", names.POD_NAMESPACE: "default"}
    runtime.add_image("i:1")
    metadata = pb.PodSandboxMetadata(name="web", namespace="default", uid=uid)
    config = pb.PodSandboxConfig(metadata=metadata, labels=labels)
    sandbox = await runtime.run_pod_sandbox(config)
    made = pb.ContainerConfig(
        metadata=pb.ContainerMetadata(name="main"),
        image=pb.ImageSpec(image="i:1"),
        labels={**labels, names.CONTAINER_NAME: "main"},
    )
    container = await runtime.create_container(sandbox, made, config)
    await runtime.start_container(container)
    return container


async def test_changes_are_told_once() -> None:
    runtime, told = FakeContainerd(), []
    pleg = Pleg(runtime, runtime.clock, told.append)
    container = await _start(runtime)
    await pleg.relist()
    assert told == ["u"]
    observed = pleg.get("u")
    assert (observed.name, observed.namespace) == ("web", "default")
    assert observed.ips
    assert [each.id for each in observed.running()] == [container]
    await pleg.relist()
    assert told == ["u"]
    runtime.exit(container, 3)
    await pleg.relist()
    latest = pleg.get("u").latest("main")
    assert told == ["u", "u"]
    assert latest is not None
    assert (latest.state, latest.exit_code) == (State.EXITED, 3)


async def test_an_idle_relist_costs_two_calls() -> None:
    runtime = FakeContainerd()
    pleg = Pleg(runtime, runtime.clock, lambda uid: None)
    await _start(runtime)
    await pleg.relist()
    runtime.calls.clear()
    await pleg.relist()
    assert [method for method, _ in runtime.calls] == ["list_pod_sandboxes", "list_containers"]


async def test_a_gone_pod_is_told_and_stays_gone() -> None:
    runtime, told = FakeContainerd(), []
    pleg = Pleg(runtime, runtime.clock, told.append)
    await _start(runtime)
    await pleg.relist()
    (sandbox,) = runtime.sandboxes
    old = await runtime.list_pod_sandboxes(), await runtime.list_containers()
    await runtime.stop_pod_sandbox(sandbox)
    await runtime.remove_pod_sandbox(sandbox)
    stale = Pleg._next_number(pleg)  # a listing that began before the removal and ends after it
    assert (await pleg.relist_pod("u")).sandboxes == ()
    await pleg._take("u", (list(old[0]), list(old[1])), stale)
    assert pleg.pods() == {}


async def test_foreign_containers_are_ignored() -> None:
    runtime = FakeContainerd()
    pleg = Pleg(runtime, runtime.clock, lambda uid: None)
    await runtime.run_pod_sandbox(pb.PodSandboxConfig(metadata=pb.PodSandboxMetadata(name="x")))
    await pleg.relist()
    assert pleg.pods() == {}


async def test_health() -> None:
    clock = FakeClock()
    runtime = FakeContainerd(clock=clock)
    pleg = Pleg(runtime, clock, lambda uid: None)
    assert pleg.unhealthy() == "pleg has yet to be successful"
    task = asyncio.ensure_future(pleg.run())
    await clock.settle()
    assert pleg.unhealthy() == ""
    runtime.fail("list_pod_sandboxes", errors.UnavailableError("gone"), times=1000)
    await clock.advance(200)
    assert "threshold is 3m0s" in pleg.unhealthy()
    task.cancel()
    await asyncio.wait({task})


async def test_events_bring_the_relist_forward() -> None:
    class Modern(FakeContainerd):
        async def events(self):  # type: ignore[no-untyped-def, override]
            while True:
                await self.clock.sleep(0.1)
                yield pb.ContainerEventResponse()

    clock = FakeClock()
    runtime = Modern(clock=clock)
    task = asyncio.ensure_future(Pleg(runtime, clock, lambda uid: None).run())
    await clock.settle()
    runtime.calls.clear()
    await clock.advance(0.5)
    assert len([call for call in runtime.calls if call[0] == "list_containers"]) >= 4
    task.cancel()
    await asyncio.wait({task})


async def test_why_a_container_ended_may_be_told_a_little_later() -> None:
    """containerd 1.7 and later: the event of the end comes first, and is one of several."""

    class Modern(FakeContainerd):
        async def events(self):  # type: ignore[no-untyped-def, override]
            while True:
                await self.clock.sleep(0.5)
                for _ in range(3):
                    yield pb.ContainerEventResponse()

    clock = FakeClock()
    runtime = Modern(clock=clock)
    container = await _start(runtime)
    pleg = Pleg(runtime, clock, lambda uid: None)
    task = asyncio.ensure_future(pleg.run())
    await clock.settle()
    runtime.calls.clear()
    runtime.exit(container, 137, "Error")
    await clock.advance(0.51)
    runtime.containers[container].reason = "OOMKilled"
    await clock.advance(0.1)
    latest = pleg.get("u").latest("main")
    assert latest is not None
    assert latest.reason == "OOMKilled"
    assert [call for call in runtime.calls if call[0] == "list_containers"] == [("list_containers", "")]
    task.cancel()
    await asyncio.wait({task})
