"""An in-memory containerd for unit tests, behind the same Protocols as the real one; strict about states and ids.

What it does not imitate: processes (tests end a container with ``exit``, or give ``behave`` a :class:`Behaviour`),
networks (addresses are counted up), files (nothing is mounted or logged), streams (URLs lead nowhere).
"""

import itertools
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from component.clock import Clock, FakeClock
from cri import errors
from cri.api import runtime_v1_pb2 as pb
from cri.interface import ExecResult


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How the process of a container acts: seconds it needs after the stop signal, and how it ends by itself."""

    stop_seconds: float = 0.0
    exit_after: float | None = None
    exit_code: int = 0


@dataclass(slots=True)
class FakeSandbox:
    """One sandbox, with what it was asked for."""

    id: str
    config: pb.PodSandboxConfig
    created_at: int
    ready: bool = True
    ip: str = ""


@dataclass(slots=True)
class FakeContainer:
    """One container, with what it was asked for."""

    id: str
    sandbox_id: str
    config: pb.ContainerConfig
    created_at: int
    state: pb.ContainerState = pb.CONTAINER_CREATED
    started_at: int = 0
    finished_at: int = 0
    exit_code: int = 0
    reason: str = ""
    log_reopened: int = 0


@dataclass(slots=True)
class FakeContainerd:
    """Both services. ``calls`` records (method, argument); ``fail`` makes the next call of a method raise."""

    clock: Clock = field(default_factory=FakeClock)
    images: dict[str, pb.Image] = field(default_factory=dict)
    registry: set[str] = field(default_factory=set)
    sandboxes: dict[str, FakeSandbox] = field(default_factory=dict)
    containers: dict[str, FakeContainer] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    behave: Callable[[pb.ContainerConfig], Behaviour] = field(default=lambda config: Behaviour())
    run: Callable[[FakeContainer, Sequence[str]], ExecResult] = field(default=lambda c, command: ExecResult(0, b"", b""))
    run_seconds: float = 0.0
    network_ready: bool = True
    _ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _failures: dict[str, list[Exception]] = field(default_factory=lambda: defaultdict(list))

    # -- what tests do to it

    def fail(self, method: str, error: Exception, times: int = 1) -> None:
        """Let the next ``times`` calls of ``method`` raise ``error``."""
        self._failures[method] += [error] * times

    def add_image(self, name: str) -> None:
        """As after an import or a pull."""
        digest = f"sha256:{abs(hash(name)):064x}"[:71]
        self.images[name] = pb.Image(id=digest, repo_tags=[name], repo_digests=[f"{name.split(':')[0]}@{digest}"], size=1000)

    def exit(self, container_id: str, code: int = 0, reason: str = "") -> None:
        """The container's process ends by itself."""
        container = self.containers[container_id]
        if container.state != pb.CONTAINER_RUNNING:
            raise AssertionError(f"container {container_id} does not run")
        container.state, container.exit_code, container.finished_at = pb.CONTAINER_EXITED, code, self._now()
        container.reason = reason or ("Completed" if code == 0 else "Error")

    def running(self) -> dict[str, FakeContainer]:
        """The running containers by name."""
        live = (c for c in self.containers.values() if c.state == pb.CONTAINER_RUNNING)
        return {container.config.metadata.name: container for container in live}

    # -- RuntimeService

    async def version(self) -> pb.VersionResponse:
        self._enter("version")
        return pb.VersionResponse(version="0.1.0", runtime_name="containerd", runtime_version="1.6.20", runtime_api_version="v1")

    async def status(self, *, verbose: bool = False) -> pb.StatusResponse:
        self._enter("status")
        network = pb.RuntimeCondition(type="NetworkReady", status=self.network_ready)
        if not self.network_ready:
            network.reason, network.message = "NetworkPluginNotReady", "Network plugin returns error: cni plugin not initialized"
        ready = pb.RuntimeCondition(type="RuntimeReady", status=True)
        return pb.StatusResponse(status=pb.RuntimeStatus(conditions=[ready, network]))

    async def runtime_config(self) -> pb.RuntimeConfigResponse:
        self._enter("runtime_config")
        raise errors.UnimplementedError("unknown method RuntimeConfig for service runtime.v1.RuntimeService")

    async def update_runtime_config(self, pod_cidr: str) -> None:
        self._enter("update_runtime_config", pod_cidr)

    async def run_pod_sandbox(self, config: pb.PodSandboxConfig, runtime_handler: str = "") -> str:
        self._enter("run_pod_sandbox", config.metadata.name)
        if runtime_handler not in ("", "runc"):
            raise errors.RuntimeServiceError(f'failed to get sandbox runtime: no runtime for "{runtime_handler}" is configured')
        for other in self.sandboxes.values():
            if other.config.metadata == config.metadata:
                raise errors.RuntimeServiceError(f'failed to reserve sandbox name: name is reserved for "{other.id}"')
        number = next(self._ids)
        ip = f"10.244.{number // 250}.{number % 250 + 2}"
        sandbox = FakeSandbox(f"sandbox-{number:04d}", _copy_sandbox(config), self._now(), ip=ip)
        self.sandboxes[sandbox.id] = sandbox
        return sandbox.id

    async def stop_pod_sandbox(self, sandbox_id: str) -> None:
        self._enter("stop_pod_sandbox", sandbox_id)
        if sandbox := self.sandboxes.get(sandbox_id):
            for container in self._of(sandbox_id):
                self._kill(container)
            sandbox.ready = False

    async def remove_pod_sandbox(self, sandbox_id: str) -> None:
        self._enter("remove_pod_sandbox", sandbox_id)
        if sandbox_id in self.sandboxes:
            if self.sandboxes[sandbox_id].ready:
                raise errors.RuntimeServiceError(f'sandbox "{sandbox_id}" is not fully stopped')
            for container in self._of(sandbox_id):
                del self.containers[container.id]
            del self.sandboxes[sandbox_id]

    async def pod_sandbox_status(self, sandbox_id: str) -> pb.PodSandboxStatus:
        self._enter("pod_sandbox_status", sandbox_id)
        sandbox = self._sandbox(sandbox_id)
        return pb.PodSandboxStatus(
            id=sandbox.id,
            metadata=sandbox.config.metadata,
            state=_sandbox_state(sandbox),
            created_at=sandbox.created_at,
            network=pb.PodSandboxNetworkStatus(ip="" if _host_network(sandbox.config) or not sandbox.ready else sandbox.ip),
            linux=pb.LinuxPodSandboxStatus(
                namespaces=pb.Namespace(options=sandbox.config.linux.security_context.namespace_options)
            ),
            labels=sandbox.config.labels,
            annotations=sandbox.config.annotations,
        )

    async def list_pod_sandboxes(self, selector: pb.PodSandboxFilter | None = None) -> Sequence[pb.PodSandbox]:
        self._enter("list_pod_sandboxes")
        found = [
            pb.PodSandbox(
                id=sandbox.id,
                metadata=sandbox.config.metadata,
                state=_sandbox_state(sandbox),
                created_at=sandbox.created_at,
                labels=sandbox.config.labels,
                annotations=sandbox.config.annotations,
            )
            for sandbox in self.sandboxes.values()
        ]
        return [item for item in found if selector is None or _sandbox_matches(item, selector)]

    async def create_container(self, sandbox_id: str, config: pb.ContainerConfig, sandbox_config: pb.PodSandboxConfig) -> str:
        self._enter("create_container", config.metadata.name)
        sandbox = self._sandbox(sandbox_id)
        if not sandbox.ready:
            raise errors.RuntimeServiceError(f'sandbox "{sandbox_id}" is not running')
        if self._find_image(config.image.image) is None:
            raise errors.NotFoundError(f'failed to resolve image "{config.image.image}": not found')
        for other in self._of(sandbox_id):
            if other.config.metadata == config.metadata:
                raise errors.RuntimeServiceError(f'failed to reserve container name: name is reserved for "{other.id}"')
        container = FakeContainer(f"container-{next(self._ids):04d}", sandbox_id, _copy_container(config), self._now())
        self.containers[container.id] = container
        return container.id

    async def start_container(self, container_id: str) -> None:
        container = self._container(container_id)
        self._enter("start_container", container.config.metadata.name)
        if container.state != pb.CONTAINER_CREATED:
            raise errors.RuntimeServiceError(f'container "{container_id}" is in {pb.ContainerState.Name(container.state)} state')
        container.state, container.started_at = pb.CONTAINER_RUNNING, self._now()
        behaviour = self.behave(container.config)
        if behaviour.exit_after is not None:
            self.clock.call_later(behaviour.exit_after, lambda: self._end(container, behaviour.exit_code))

    async def stop_container(self, container_id: str, grace: int) -> None:
        container = self.containers.get(container_id)
        self._enter("stop_container", f"{container.config.metadata.name if container else container_id} {grace}")
        if container is None or container.state != pb.CONTAINER_RUNNING:
            return
        needs = self.behave(container.config).stop_seconds
        await self.clock.sleep(min(needs, grace))
        self._end(container, 143 if 0 < grace >= needs else 137)

    async def remove_container(self, container_id: str) -> None:
        self._enter("remove_container", container_id)
        if container := self.containers.get(container_id):
            self._kill(container)
            del self.containers[container_id]

    async def container_status(self, container_id: str) -> pb.ContainerStatus:
        self._enter("container_status", container_id)
        container = self._container(container_id)
        image = self._find_image(container.config.image.image)
        reference = image.repo_digests[0] if image else container.config.image.image
        return pb.ContainerStatus(
            id=container.id,
            metadata=container.config.metadata,
            state=container.state,
            created_at=container.created_at,
            started_at=container.started_at,
            finished_at=container.finished_at,
            exit_code=container.exit_code,
            image=container.config.image,
            image_ref=reference,
            reason=container.reason,
            labels=container.config.labels,
            annotations=container.config.annotations,
            log_path=container.config.log_path,
        )

    async def list_containers(self, selector: pb.ContainerFilter | None = None) -> Sequence[pb.Container]:
        self._enter("list_containers")
        found = [
            pb.Container(
                id=container.id,
                pod_sandbox_id=container.sandbox_id,
                metadata=container.config.metadata,
                image=container.config.image,
                image_ref=container.config.image.image,
                state=container.state,
                created_at=container.created_at,
                labels=container.config.labels,
                annotations=container.config.annotations,
            )
            for container in self.containers.values()
        ]
        return [item for item in found if selector is None or _container_matches(item, selector)]

    async def update_container_resources(self, container_id: str, resources: pb.LinuxContainerResources) -> None:
        self._enter("update_container_resources", container_id)
        self._container(container_id).config.linux.resources.CopyFrom(resources)

    async def reopen_container_log(self, container_id: str) -> None:
        self._enter("reopen_container_log", container_id)
        self._container(container_id).log_reopened += 1

    async def checkpoint_container(self, container_id: str, location: str, timeout: float) -> None:
        self._enter("checkpoint_container", container_id)
        raise errors.UnimplementedError("unknown method CheckpointContainer for service runtime.v1.RuntimeService")

    async def exec_sync(self, container_id: str, command: Sequence[str], timeout: float) -> ExecResult:
        self._enter("exec_sync", " ".join(command))
        container = self._container(container_id)
        if container.state != pb.CONTAINER_RUNNING:
            raise errors.RuntimeServiceError(f'failed to exec in container: container "{container_id}" is not running')
        if timeout and self.run_seconds > timeout:
            await self.clock.sleep(timeout)
            raise errors.DeadlineError(f"failed to exec in container: timeout {timeout:g}s exceeded")
        await self.clock.sleep(self.run_seconds)
        return self.run(container, command)

    async def exec(self, container_id: str, command: Sequence[str], *, stdin: bool, stdout: bool, stderr: bool, tty: bool) -> str:
        self._enter("exec", container_id)
        return f"http://127.0.0.1:0/exec/{self._container(container_id).id}"

    async def attach(self, container_id: str, *, stdin: bool, stdout: bool, stderr: bool, tty: bool) -> str:
        self._enter("attach", container_id)
        return f"http://127.0.0.1:0/attach/{self._container(container_id).id}"

    async def port_forward(self, sandbox_id: str, ports: Sequence[int]) -> str:
        self._enter("port_forward", sandbox_id)
        return f"http://127.0.0.1:0/portforward/{self._sandbox(sandbox_id).id}"

    async def events(self) -> AsyncIterator[pb.ContainerEventResponse]:
        self._enter("events")
        raise errors.UnimplementedError("unknown method GetContainerEvents for service runtime.v1.RuntimeService")
        yield pb.ContainerEventResponse()  # makes this an asynchronous generator, as containerd 1.6 answers

    async def list_container_stats(self) -> Sequence[pb.ContainerStats]:
        self._enter("list_container_stats")
        return [pb.ContainerStats(attributes=pb.ContainerAttributes(id=container.id)) for container in self.running().values()]

    # -- ImageService

    async def list_images(self) -> Sequence[pb.Image]:
        self._enter("list_images")
        return list(self.images.values())

    async def image_status(self, image: str) -> pb.Image | None:
        self._enter("image_status", image)
        return self._find_image(image)

    async def pull_image(self, image: str, auth: pb.AuthConfig | None, sandbox_config: pb.PodSandboxConfig) -> str:
        self._enter("pull_image", image)
        if image not in self.registry:
            raise errors.NotFoundError(f'failed to pull and unpack image "{image}": {image}: not found')
        self.add_image(image)
        return self.images[image].id

    async def remove_image(self, image: str) -> None:
        self._enter("remove_image", image)
        if found := self._find_image(image):
            self.images = {name: kept for name, kept in self.images.items() if kept.id != found.id}

    async def image_fs_info(self) -> Sequence[pb.FilesystemUsage]:
        self._enter("image_fs_info")
        used = pb.UInt64Value(value=sum(image.size for image in self.images.values()))
        return [pb.FilesystemUsage(fs_id=pb.FilesystemIdentifier(mountpoint="/"), used_bytes=used)]

    # -- inside

    def _enter(self, method: str, argument: str = "") -> None:
        self.calls.append((method, argument))
        if self._failures[method]:
            raise self._failures[method].pop(0)

    def _now(self) -> int:
        return nanoseconds(self.clock.now())

    def _of(self, sandbox_id: str) -> list[FakeContainer]:
        return [container for container in self.containers.values() if container.sandbox_id == sandbox_id]

    def _sandbox(self, sandbox_id: str) -> FakeSandbox:
        if sandbox_id not in self.sandboxes:
            raise errors.NotFoundError(f'an error occurred when try to find sandbox: "{sandbox_id}": not found')
        return self.sandboxes[sandbox_id]

    def _container(self, container_id: str) -> FakeContainer:
        if container_id not in self.containers:
            raise errors.NotFoundError(f'an error occurred when try to find container "{container_id}": not found')
        return self.containers[container_id]

    def _find_image(self, name: str) -> pb.Image | None:
        for known, image in self.images.items():
            if name in (known, image.id) or name in image.repo_digests:
                return image
        return None

    def _end(self, container: FakeContainer, code: int) -> None:
        if container.state == pb.CONTAINER_RUNNING:
            self.exit(container.id, code)

    def _kill(self, container: FakeContainer) -> None:
        self._end(container, 137)


def nanoseconds(when: datetime) -> int:
    """CRI's timestamps."""
    return int(when.timestamp() * 1_000_000) * 1000


def _sandbox_state(sandbox: FakeSandbox) -> pb.PodSandboxState:
    return pb.SANDBOX_READY if sandbox.ready else pb.SANDBOX_NOTREADY


def _copy_sandbox(config: pb.PodSandboxConfig) -> pb.PodSandboxConfig:
    copied = pb.PodSandboxConfig()
    copied.CopyFrom(config)
    return copied


def _copy_container(config: pb.ContainerConfig) -> pb.ContainerConfig:
    copied = pb.ContainerConfig()
    copied.CopyFrom(config)
    return copied


def _host_network(config: pb.PodSandboxConfig) -> bool:
    return config.linux.security_context.namespace_options.network == pb.NODE


def _labelled(labels: object, wanted: object) -> bool:
    return dict(wanted).items() <= dict(labels).items()  # type: ignore[call-overload, no-any-return]


def _sandbox_matches(item: pb.PodSandbox, selector: pb.PodSandboxFilter) -> bool:
    if selector.id and item.id != selector.id:
        return False
    if selector.HasField("state") and item.state != selector.state.state:
        return False
    return _labelled(item.labels, selector.label_selector)


def _container_matches(item: pb.Container, selector: pb.ContainerFilter) -> bool:
    if selector.id and item.id != selector.id:
        return False
    if selector.pod_sandbox_id and item.pod_sandbox_id != selector.pod_sandbox_id:
        return False
    if selector.HasField("state") and item.state != selector.state.state:
        return False
    return _labelled(item.labels, selector.label_selector)
