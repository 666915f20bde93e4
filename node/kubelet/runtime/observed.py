"""What the runtime holds of one pod, as plain values. Made by ``pleg`` from CRI answers, read by every decision."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from cri.api import runtime_v1_pb2 as pb
from node.kubelet.runtime import names


class State(Enum):
    """CRI's container states."""

    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"
    UNKNOWN = "unknown"


STATES = {
    pb.CONTAINER_CREATED: State.CREATED,
    pb.CONTAINER_RUNNING: State.RUNNING,
    pb.CONTAINER_EXITED: State.EXITED,
    pb.CONTAINER_UNKNOWN: State.UNKNOWN,
}


@dataclass(frozen=True, slots=True)
class ObservedContainer:
    """One container instance. Times are CRI's nanoseconds since 1970, 0 for never."""

    id: str
    name: str
    sandbox_id: str
    state: State
    attempt: int = 0
    created_at: int = 0
    started_at: int = 0
    finished_at: int = 0
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    image: str = ""
    image_id: str = ""
    log_path: str = ""
    stop_signal: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    user: Mapping[str, Any] | None = None
    """As ``containerStatuses[].user.linux``: who its first process is; None for runtimes that do not tell."""

    @property
    def hash(self) -> str:
        return self.annotations.get(names.CONTAINER_HASH, "")

    @property
    def restart_count(self) -> int:
        """How often the container had been restarted when this instance was made."""
        text = self.annotations.get(names.RESTART_COUNT, "")
        return int(text) if text.isdigit() else self.attempt

    @property
    def failed(self) -> bool:
        return self.state is State.EXITED and self.exit_code != 0

    @property
    def succeeded(self) -> bool:
        return self.state is State.EXITED and self.exit_code == 0


@dataclass(frozen=True, slots=True)
class ObservedSandbox:
    """One sandbox of the pod; after a reboot or a crash of its pause process there can be several."""

    id: str
    attempt: int
    ready: bool
    created_at: int
    ips: tuple[str, ...] = ()
    host_network: bool = False


@dataclass(frozen=True, slots=True)
class ObservedPod:
    """All instances of one pod in the runtime, newest first."""

    uid: str
    name: str = ""
    namespace: str = ""
    sandboxes: tuple[ObservedSandbox, ...] = ()
    containers: tuple[ObservedContainer, ...] = ()

    @property
    def sandbox(self) -> ObservedSandbox | None:
        """The newest."""
        return self.sandboxes[0] if self.sandboxes else None

    @property
    def ips(self) -> tuple[str, ...]:
        """The addresses of the ready sandbox."""
        return next((sandbox.ips for sandbox in self.sandboxes if sandbox.ready), ())

    def latest(self, name: str) -> ObservedContainer | None:
        """The newest instance of a container, in whichever sandbox."""
        return next((container for container in self.containers if container.name == name), None)

    def previous(self, name: str) -> ObservedContainer | None:
        """The newest exited instance before the latest one."""
        others = [container for container in self.containers if container.name == name][1:]
        return next((container for container in others if container.state is State.EXITED), None)

    def current(self, name: str) -> ObservedContainer | None:
        """The newest instance in the newest sandbox."""
        latest = self.latest(name)
        return latest if latest and self.sandbox and latest.sandbox_id == self.sandbox.id else None

    def running(self) -> list[ObservedContainer]:
        return [container for container in self.containers if container.state is State.RUNNING]

    def stoppable(self) -> list[ObservedContainer]:
        """What must be stopped before the pod is gone: unknown states count as running, to be safe."""
        return [container for container in self.containers if container.state in (State.RUNNING, State.UNKNOWN)]


def container_of(listed: pb.Container, status: pb.ContainerStatus | None) -> ObservedContainer:
    """One container from its list entry and, where it was fetched, its status."""
    name = listed.labels.get(names.CONTAINER_NAME, listed.metadata.name)
    bare = ObservedContainer(
        id=listed.id,
        name=name,
        sandbox_id=listed.pod_sandbox_id,
        state=STATES[listed.state],
        attempt=listed.metadata.attempt,
        created_at=listed.created_at,
        annotations=dict(listed.annotations),
    )
    if status is None:
        return bare
    return replace(
        bare,
        state=STATES[status.state],
        started_at=status.started_at,
        finished_at=status.finished_at,
        exit_code=status.exit_code,
        reason=status.reason,
        message=status.message,
        image=status.image.image,
        image_id=status.image_id or status.image_ref,
        log_path=status.log_path,
        stop_signal=signal_name(status.stop_signal),
        user=_user(status.user.linux) if status.HasField("user") else None,
    )


def _user(user: pb.LinuxContainerUser) -> dict[str, Any]:
    groups = {"supplementalGroups": list(user.supplemental_groups)} if user.supplemental_groups else {}
    return {"uid": user.uid, "gid": user.gid, **groups}


def signal_name(signal: pb.Signal) -> str:
    """As the API writes it; empty where the runtime does not say."""
    if signal == pb.RUNTIME_DEFAULT:
        return ""
    return pb.Signal.Name(signal).replace("PLUS", "+").replace("MINUS", "-")


def sandbox_of(listed: pb.PodSandbox, status: pb.PodSandboxStatus | None) -> ObservedSandbox:
    """One sandbox from its list entry and, where it was fetched, its status."""
    ips: tuple[str, ...] = ()
    host_network = False
    if status is not None:
        host_network = status.linux.namespaces.options.network == pb.NODE
        if status.network.ip and not host_network:
            ips = (status.network.ip, *(extra.ip for extra in status.network.additional_ips))
    return ObservedSandbox(
        listed.id, listed.metadata.attempt, listed.state == pb.SANDBOX_READY, listed.created_at, ips, host_network
    )


def pod_of(
    uid: str, name: str, namespace: str, sandboxes: Iterable[ObservedSandbox], containers: Iterable[ObservedContainer]
) -> ObservedPod:
    """Order the instances newest first: by attempt, as their dates are those of a clock that may have been set back."""
    return ObservedPod(
        uid,
        name,
        namespace,
        tuple(sorted(sandboxes, key=lambda each: (each.attempt, each.created_at), reverse=True)),
        tuple(sorted(containers, key=lambda each: (each.attempt, each.created_at), reverse=True)),
    )
