"""One suite for both runtimes: the promises of ``cri.interface``, on the in-memory fake and on a real containerd."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import pytest

from component.clock import RealClock
from cri import errors
from cri.api import runtime_v1_pb2 as pb
from cri.channel import Channel
from cri.fake import Behaviour, FakeContainer, FakeContainerd
from cri.images import GrpcImages
from cri.interface import ExecResult, ImageService, RuntimeService
from cri.runtime import GrpcRuntime
from tests.support import runtimes
from tests.support.containerd import BUSYBOX, running_containerd
from tests.support.netns import own_network_namespace
from tests.support.node import own_cgroups

CGROUPS = "pyb-contract"


@dataclass(frozen=True)
class Services:
    runtime: RuntimeService
    images: ImageService


def _fake_run(container: FakeContainer, command: object) -> ExecResult:
    words = list(command)  # type: ignore[call-overload]
    if words == ["sh", "-c", "echo out; echo err >&2; exit 3"]:
        return ExecResult(3, b"out\n", b"err\n")
    return ExecResult(0, b"", b"")


def _fake_behaviour(config: pb.ContainerConfig) -> Behaviour:
    script = " ".join(config.command)
    if "trap" in script:
        return Behaviour(stop_seconds=60)
    return Behaviour(exit_after=0.01, exit_code=7) if "exit 7" in script else Behaviour()


@pytest.fixture(params=["fake", *(pytest.param(name, marks=pytest.mark.e2e) for name in ("containerd", *runtimes.SUITES))])
async def services(request: pytest.FixtureRequest) -> AsyncIterator[Services]:
    if request.param == "fake":
        fake = FakeContainerd(clock=RealClock(), behave=_fake_behaviour, run=_fake_run)
        fake.add_image(BUSYBOX)
        yield Services(fake, fake)
        return
    with own_network_namespace(), own_cgroups(CGROUPS):
        other = "" if request.param == "containerd" else request.param
        async with running_containerd(runtime=other) as running:
            running.write_bridge_network()
            channel = Channel(running.endpoint)
            runtime = GrpcRuntime(channel)
            await _until(lambda: _network_ready(runtime))
            yield Services(runtime, GrpcImages(channel))
            for sandbox in await runtime.list_pod_sandboxes():
                await runtime.stop_pod_sandbox(sandbox.id)
                await runtime.remove_pod_sandbox(sandbox.id)
            await channel.close()


async def _network_ready(runtime: RuntimeService) -> bool:
    conditions = (await runtime.status()).status.conditions
    return {each.type for each in conditions if each.status} >= {"RuntimeReady", "NetworkReady"}


async def _has(runtime: RuntimeService, container: str, path: str) -> bool:
    return (await runtime.exec_sync(container, ["ls", path], 5)).exit_code == 0


async def _until(check: Callable[[], object], seconds: float = 10) -> None:
    async with asyncio.timeout(seconds):
        while not await check():  # type: ignore[misc]  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def _sandbox(name: str = "pod") -> pb.PodSandboxConfig:
    metadata = pb.PodSandboxMetadata(name=name, namespace="default", uid=f"uid-{name}")
    linux = pb.LinuxPodSandboxConfig(cgroup_parent=f"/{CGROUPS}")
    return pb.PodSandboxConfig(metadata=metadata, hostname=name, labels={"pod": name}, linux=linux)


def _container(script: str, name: str = "main", attempt: int = 0) -> pb.ContainerConfig:
    return pb.ContainerConfig(
        metadata=pb.ContainerMetadata(name=name, attempt=attempt),
        image=pb.ImageSpec(image=BUSYBOX),
        command=["sh", "-c", script],
        labels={"container": name},
        annotations={"note": "kept"},
    )


async def test_a_container_lives_and_dies(services: Services) -> None:
    runtime, config = services.runtime, _sandbox()
    sandbox = await runtime.run_pod_sandbox(config)
    status = await runtime.pod_sandbox_status(sandbox)
    assert status.state == pb.SANDBOX_READY
    assert status.network.ip
    container = await runtime.create_container(sandbox, _container("exec sleep 1000"), config)
    assert (await runtime.container_status(container)).state == pb.CONTAINER_CREATED
    await runtime.start_container(container)
    running = await runtime.container_status(container)
    assert running.state == pb.CONTAINER_RUNNING
    assert running.started_at >= running.created_at > 0
    assert running.annotations["note"] == "kept"
    await runtime.stop_container(container, 0)
    exited = await runtime.container_status(container)
    assert exited.state == pb.CONTAINER_EXITED
    assert exited.exit_code == 137
    assert exited.finished_at >= exited.started_at


async def test_an_exit_code_is_kept(services: Services) -> None:
    runtime, config = services.runtime, _sandbox()
    sandbox = await runtime.run_pod_sandbox(config)
    container = await runtime.create_container(sandbox, _container("exit 7"), config)
    await runtime.start_container(container)

    async def exited() -> bool:
        return (await runtime.container_status(container)).state == pb.CONTAINER_EXITED

    await _until(exited)
    status = await runtime.container_status(container)
    assert (status.exit_code, status.reason) == (7, "Error")


async def test_the_grace_period_ends_in_a_kill(services: Services) -> None:
    runtime, config = services.runtime, _sandbox()
    sandbox = await runtime.run_pod_sandbox(config)
    container = await runtime.create_container(
        sandbox, _container("trap '' TERM; touch /deaf; while true; do sleep 0.1; done"), config
    )
    await runtime.start_container(container)
    await _until(lambda: _has(runtime, container, "/deaf"))
    await runtime.stop_container(container, 1)
    assert (await runtime.container_status(container)).exit_code == 137


async def test_lists_filter_by_label_sandbox_and_state(services: Services) -> None:
    runtime = services.runtime
    first, second = _sandbox("one"), _sandbox("two")
    one, two = await runtime.run_pod_sandbox(first), await runtime.run_pod_sandbox(second)
    inside = await runtime.create_container(one, _container("exec sleep 1000"), first)
    await runtime.create_container(two, _container("exec sleep 1000"), second)
    found = await runtime.list_pod_sandboxes(pb.PodSandboxFilter(label_selector={"pod": "one"}))
    assert [item.id for item in found] == [one]
    assert len(await runtime.list_pod_sandboxes()) == 2
    listed = await runtime.list_containers(pb.ContainerFilter(pod_sandbox_id=one))
    assert [(item.id, item.pod_sandbox_id) for item in listed] == [(inside, one)]
    created = pb.ContainerStateValue(state=pb.CONTAINER_CREATED)
    assert len(await runtime.list_containers(pb.ContainerFilter(state=created))) == 2


async def test_exec_sync_reports_code_and_output(services: Services) -> None:
    runtime, config = services.runtime, _sandbox()
    sandbox = await runtime.run_pod_sandbox(config)
    container = await runtime.create_container(sandbox, _container("exec sleep 1000"), config)
    await runtime.start_container(container)
    result = await runtime.exec_sync(container, ["sh", "-c", "echo out; echo err >&2; exit 3"], 5)
    assert (result.exit_code, result.stdout, result.stderr) == (3, b"out\n", b"err\n")


async def test_removal_takes_containers_along_and_repeats_safely(services: Services) -> None:
    runtime, config = services.runtime, _sandbox()
    sandbox = await runtime.run_pod_sandbox(config)
    container = await runtime.create_container(sandbox, _container("exec sleep 1000"), config)
    await runtime.start_container(container)
    await runtime.stop_pod_sandbox(sandbox)
    await runtime.stop_pod_sandbox(sandbox)
    assert (await runtime.container_status(container)).state == pb.CONTAINER_EXITED
    await runtime.remove_pod_sandbox(sandbox)
    await runtime.remove_pod_sandbox(sandbox)
    with pytest.raises(errors.NotFoundError):
        await runtime.container_status(container)
    with pytest.raises(errors.NotFoundError):
        await runtime.pod_sandbox_status(sandbox)
    await runtime.stop_container(container, 1)
    await runtime.remove_container(container)


async def test_images_are_found_by_every_name(services: Services) -> None:
    found = await services.images.image_status(BUSYBOX)
    assert found is not None
    assert BUSYBOX in found.repo_tags
    assert await services.images.image_status(found.id) is not None
    assert await services.images.image_status("docker.io/library/nothing:1") is None
    assert any(image.id == found.id for image in await services.images.list_images())


async def test_a_handler_is_one_that_the_runtime_has(services: Services) -> None:
    sandbox = await services.runtime.run_pod_sandbox(_sandbox("handled"), "runc")
    assert sandbox
    with pytest.raises(errors.RuntimeServiceError, match='no runtime for "nothing" is configured'):
        await services.runtime.run_pod_sandbox(_sandbox("lost"), "nothing")


async def test_events_are_optional(services: Services) -> None:
    version = await services.runtime.version()
    assert version.runtime_api_version == "v1"
    events = aiter(services.runtime.events())
    if version.runtime_version.startswith(("1.6", "v1.6")):
        with pytest.raises(errors.UnimplementedError):
            await anext(events)
        return
    first = asyncio.ensure_future(anext(events))
    config = _sandbox()
    sandbox = await services.runtime.run_pod_sandbox(config)
    container = await services.runtime.create_container(sandbox, _container("exec sleep 1000"), config)
    await services.runtime.start_container(container)
    async with asyncio.timeout(20):
        seen = await first
        while (seen.container_id, seen.container_event_type) != (container, pb.CONTAINER_STARTED_EVENT):
            seen = await anext(events)


async def test_the_cgroup_driver_is_told_since_version_2(services: Services) -> None:
    if (await services.runtime.version()).runtime_version.startswith("1."):
        with pytest.raises(errors.UnimplementedError):
            await services.runtime.runtime_config()
    else:
        assert (await services.runtime.runtime_config()).linux.cgroup_driver == pb.CGROUPFS


async def test_an_absent_runtime_is_unavailable(tmp_path: object) -> None:
    channel = Channel(f"unix://{tmp_path}/nothing.sock")
    with pytest.raises(errors.UnavailableError):
        await GrpcRuntime(channel).version()
    await channel.close()
