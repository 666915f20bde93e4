"""The kubelet's connection to its container runtime: one channel, both services, and what is asked of them now and then."""

from collections.abc import Mapping, Sequence
from typing import Any

from component import logs
from component.clock import Clock
from cri import errors, facts
from cri.api import runtime_v1_pb2 as pb
from cri.channel import Channel
from cri.images import GrpcImages
from cri.interface import ImageService, RuntimeService
from cri.runtime import GrpcRuntime
from node.kubelet.node_status import RuntimeFacts

_log = logs.get(__name__)


class Connection:
    """Made inside the event loop; close it last."""

    def __init__(self, endpoint: str, image_endpoint: str = "") -> None:
        self._channel = Channel(endpoint)
        self._image_channel = Channel(image_endpoint) if image_endpoint and image_endpoint != endpoint else self._channel
        self.runtime: GrpcRuntime = GrpcRuntime(self._channel)
        self.images: GrpcImages = GrpcImages(self._image_channel)

    async def close(self) -> None:
        await self._channel.close()
        if self._image_channel is not self._channel:
            await self._image_channel.close()


async def wait_for_runtime(runtime: RuntimeService, clock: Clock) -> str:
    """Wait until the runtime answers; its name and version as the Node shows them (``containerd://1.6.20``)."""
    complained = False
    while True:
        try:
            version = await runtime.version()
        except errors.RuntimeServiceError as error:
            if not complained:
                _log.warning("Waiting for the container runtime", err=error)
                complained = True
            await clock.sleep(0.1)
        else:
            return f"{version.runtime_name}://{version.runtime_version.removeprefix('v')}"


async def cgroup_driver(runtime: RuntimeService, configured: str) -> str:
    """The runtime's own, whatever is configured (KubeletCgroupDriverFromCRI); ``configured`` for runtimes that do not tell.
    Raises RuntimeServiceError where it does not answer."""
    try:
        told = await runtime.runtime_config()
    except errors.UnimplementedError:
        _log.info("The runtime does not tell its cgroup driver: the configured one is used", driver=configured)
        return configured
    if not told.HasField("linux"):
        return configured
    driver = "systemd" if told.linux.cgroup_driver == pb.SYSTEMD else "cgroupfs"
    if driver != configured:
        _log.info("The runtime's cgroup driver is used, not the configured one", driver=driver, configured=configured)
    return driver


async def look(runtime: RuntimeService, images: ImageService, version: str, pleg_problem: str) -> RuntimeFacts:
    """The runtime's health and images, for the Node. Never raises."""
    problems, network, handlers, features = [], "", [], None
    try:
        answer = await runtime.status()
        handlers = [_handler(each) for each in answer.runtime_handlers]
        if answer.HasField("features"):
            features = {"supplementalGroupsPolicy": answer.features.supplemental_groups_policy}
        told = {each.type: each for each in answer.status.conditions}
        if text := _not_ready(told, "NetworkReady"):
            network = f"container runtime network not ready: {text}"
            problems.append(network)
        if text := _not_ready(told, "RuntimeReady"):
            problems.append(f"container runtime not ready: {text}")
        listed = [] if problems else await images.list_images()
    except errors.RuntimeServiceError as error:
        return RuntimeFacts(version, [f"container runtime is down: {error}"], network)
    if pleg_problem:
        problems.append(f"PLEG is not healthy: {pleg_problem}")
    listed = sorted(listed, key=lambda image: -image.size)
    shown = [{"names": [*image.repo_digests, *image.repo_tags], "sizeBytes": image.size} for image in listed]
    return RuntimeFacts(
        version, problems, network, [image for image in shown if image["names"]], handlers=handlers, features=features
    )


def _not_ready(told: Mapping[str, pb.RuntimeCondition], kind: str) -> str:
    """Why not, or ``""``. A runtime's further conditions (containerd 2 has one about deprecated settings) say nothing of it."""
    condition = told.get(kind)
    if condition is None:
        return f"{kind}: the runtime does not tell"
    return "" if condition.status else f"{kind}=false reason:{condition.reason} message:{condition.message}"


def _handler(handler: pb.RuntimeHandler) -> dict[str, Any]:
    features = handler.features
    able = {"recursiveReadOnlyMounts": features.recursive_read_only_mounts, "userNamespaces": features.user_namespaces}
    return {"name": handler.name, "features": able}


async def sandbox_image(runtime: RuntimeService) -> str:
    """The image that sandboxes start from, where the runtime says; older ones do not pin it. Raises RuntimeServiceError."""
    return facts.parse((await runtime.status(verbose=True)).info.get("config", "")).sandbox_image


async def run_in_container(
    runtime: RuntimeService, container_id: str, command: Sequence[str], timeout: float
) -> tuple[int, bytes]:
    """For exec probes: (exit code, output). Raises TimeoutError, or OSError when it cannot be run."""
    try:
        result = await runtime.exec_sync(container_id, command, timeout)
    except errors.DeadlineError as error:
        raise TimeoutError(str(error)) from None
    except errors.RuntimeServiceError as error:
        raise OSError(str(error)) from None
    return result.exit_code, result.stdout + result.stderr
