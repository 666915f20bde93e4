"""What the kubelet may ask of a runtime, in CRI's own words and messages. Two implementations: the real one
(``runtime.py``, ``images.py``) and ``fake.py``; ``tests/contract/test_cri.py`` holds both to these promises.

Every method raises only from ``cri.errors``. Stops and removals of what is already gone succeed, as CRI demands.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from cri.api import runtime_v1_pb2 as pb


@dataclass(frozen=True, slots=True)
class ExecResult:
    """The outcome of a command run to its end inside a container."""

    exit_code: int
    stdout: bytes
    stderr: bytes


class RuntimeService(Protocol):
    """Sandboxes and containers."""

    async def version(self) -> pb.VersionResponse: ...

    async def status(self, *, verbose: bool = False) -> pb.StatusResponse: ...

    async def runtime_config(self) -> pb.RuntimeConfigResponse:
        """Which cgroup driver it has. Raises UnimplementedError where the runtime does not tell (containerd before 2.0)."""
        ...

    async def update_runtime_config(self, pod_cidr: str) -> None: ...

    async def run_pod_sandbox(self, config: pb.PodSandboxConfig, runtime_handler: str = "") -> str:
        """Create and start a sandbox, its network included; its id. On failure nothing is left running."""
        ...

    async def stop_pod_sandbox(self, sandbox_id: str) -> None:
        """Kill what still runs in it and release its network."""
        ...

    async def remove_pod_sandbox(self, sandbox_id: str) -> None:
        """Remove it and all its containers."""
        ...

    async def pod_sandbox_status(self, sandbox_id: str) -> pb.PodSandboxStatus:
        """Raises NotFoundError."""
        ...

    async def list_pod_sandboxes(self, selector: pb.PodSandboxFilter | None = None) -> Sequence[pb.PodSandbox]: ...

    async def create_container(self, sandbox_id: str, config: pb.ContainerConfig, sandbox_config: pb.PodSandboxConfig) -> str: ...

    async def start_container(self, container_id: str) -> None: ...

    async def stop_container(self, container_id: str, grace: int) -> None:
        """Stop signal now, SIGKILL after ``grace`` seconds; returns when it has exited."""
        ...

    async def remove_container(self, container_id: str) -> None: ...

    async def container_status(self, container_id: str) -> pb.ContainerStatus:
        """Raises NotFoundError."""
        ...

    async def list_containers(self, selector: pb.ContainerFilter | None = None) -> Sequence[pb.Container]: ...

    async def update_container_resources(self, container_id: str, resources: pb.LinuxContainerResources) -> None: ...

    async def reopen_container_log(self, container_id: str) -> None:
        """After the log file was renamed: go on in a new file under the old name."""
        ...

    async def checkpoint_container(self, container_id: str, location: str, timeout: float) -> None:
        """Write its state into the archive ``location``; it goes on running. ``timeout`` in seconds, 0 for the runtime's own.
        Raises UnimplementedError where the runtime cannot."""
        ...

    async def exec_sync(self, container_id: str, command: Sequence[str], timeout: float) -> ExecResult:
        """Run a command to its end. Raises DeadlineError after ``timeout`` seconds (0: no limit)."""
        ...

    async def exec(
        self, container_id: str, command: Sequence[str], *, stdin: bool, stdout: bool, stderr: bool, tty: bool
    ) -> str: ...

    async def attach(self, container_id: str, *, stdin: bool, stdout: bool, stderr: bool, tty: bool) -> str: ...

    async def port_forward(self, sandbox_id: str, ports: Sequence[int]) -> str: ...

    def events(self) -> AsyncIterator[pb.ContainerEventResponse]:
        """Container events from now on. Raises UnimplementedError where the runtime has none (containerd 1.6)."""
        ...

    async def list_container_stats(self) -> Sequence[pb.ContainerStats]: ...


class ImageService(Protocol):
    """Images."""

    async def list_images(self) -> Sequence[pb.Image]: ...

    async def image_status(self, image: str) -> pb.Image | None:
        """The image by name, digest or id; None if it is not here."""
        ...

    async def pull_image(self, image: str, auth: pb.AuthConfig | None, sandbox_config: pb.PodSandboxConfig) -> str:
        """Fetch it; the reference under which it is now known. No deadline: a pull takes what it takes."""
        ...

    async def remove_image(self, image: str) -> None: ...

    async def image_fs_info(self) -> Sequence[pb.FilesystemUsage]: ...
