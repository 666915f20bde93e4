"""The decision of a pod worker: which sandbox and containers to start, which to kill. Pure; ``tests`` hold its tables.

Called by ``pod_workers`` with a pod, what the runtime holds of it and the probes' verdicts; ``runtime.manager`` performs the
plan, the worker comes back with a fresh observation. Semantics are those of upstream's kuberuntime ``computePodActions``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from apimachinery.meta import is_deleting
from apimachinery.objects import pods
from node.kubelet.runtime import names
from node.kubelet.runtime.observed import ObservedContainer, ObservedPod, State

Pod = Mapping[str, Any]
Container = Mapping[str, Any]


class Verdict(Enum):
    """What the probes say of one container instance."""

    HEALTHY = "healthy"
    STARTING = "starting"  # its startup probe or postStart hook has not succeeded yet
    LIVENESS_FAILED = "liveness probe"
    STARTUP_FAILED = "startup probe"
    RESIZE = "resize"  # it must be restarted to get its new resources


@dataclass(frozen=True, slots=True)
class Kill:
    """Stop one container. ``message`` is the event's text; ``restart`` says it will be started again."""

    container: ObservedContainer
    message: str
    probe: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now. Containers are given by name, init containers first, in order."""

    kill_pod: bool = False
    create_sandbox: bool = False
    attempt: int = 0
    kill: tuple[Kill, ...] = ()
    start_init: tuple[str, ...] = ()
    start: tuple[str, ...] = ()
    start_ephemeral: tuple[str, ...] = ()
    reset: ObservedContainer | None = None  # its exit has every container removed, so that all begin anew

    @property
    def idle(self) -> bool:
        return self == _NOTHING


_NOTHING = Plan()


def decide(pod: Pod, observed: ObservedPod, verdicts: Mapping[str, Verdict]) -> Plan:
    """``verdicts`` maps container ids to what probes say; ids that are absent are healthy."""
    needs_sandbox, attempt = _sandbox_needed(pod, observed)
    if needs_sandbox:
        return _fresh(pod, observed, attempt)
    if (cause := trigger(pod, observed)) is not None:
        return Plan(reset=cause)
    ephemeral = tuple(
        each["name"] for each in pods.spec_of(pod).get("ephemeralContainers") or () if observed.latest(each["name"]) is None
    )
    step = _init_step(pod, observed, verdicts)
    if step.fail:
        return Plan(kill_pod=True)
    if not step.done:
        return Plan(kill=step.kill, start_init=step.start, start_ephemeral=ephemeral)
    kill: list[Kill] = []
    start: list[str] = []
    kept = 0
    for container in pods.containers(pod):
        kept += _regular(pod, container, observed, verdicts, kill, start)
    if kept == 0 and not start:
        return Plan(kill_pod=True)
    return Plan(kill=(*step.kill, *kill), start_init=step.start, start=tuple(start), start_ephemeral=ephemeral)


def should_restart(pod: Pod, container: Container, latest: ObservedContainer | None) -> bool:
    """Whether a container that does not run is to be started (again)."""
    if is_deleting(pod):
        return False
    if latest is None or latest.state in (State.CREATED, State.UNKNOWN):
        return True
    if latest.state is State.RUNNING:
        return False
    return pods.restarts_after(pod, container, latest.exit_code)


def trigger(pod: Pod, observed: ObservedPod) -> ObservedContainer | None:
    """The container whose exit asks for a restart of all, by one of its rules (KEP-5532)."""
    if is_deleting(pod):
        return None
    spec = pods.spec_of(pod)
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        latest = observed.latest(container["name"])
        if latest is None or latest.state is not State.EXITED:
            continue
        if pods.restart_rule(container, latest.exit_code) == pods.RESTART_ALL:
            return latest
    return None


def _sandbox_needed(pod: Pod, observed: ObservedPod) -> tuple[bool, int]:
    newest = observed.sandbox
    if newest is None:
        return True, 0
    ready = sum(sandbox.ready for sandbox in observed.sandboxes)
    host = pods.is_host_network(pod)
    if ready > 1 or not newest.ready or newest.host_network != host or (not host and not newest.ips):
        return True, newest.attempt + 1
    return False, 0


def _fresh(pod: Pod, observed: ObservedPod, attempt: int) -> Plan:
    """A new sandbox, if anything is left to run in it; whatever ran in the old one is killed first."""
    kill_pod = observed.sandbox is not None
    may_restart = any(pods.may_restart(pod, container) for container in pods.containers(pod))
    if not may_restart and attempt != 0 and observed.containers:
        return Plan(kill_pod=True)
    start = tuple(container["name"] for container in pods.containers(pod) if not _is_done(pod, container, observed))
    if not start:
        return Plan(kill_pod=True)
    init = pods.spec_of(pod).get("initContainers") or ()
    if init:
        return Plan(kill_pod, True, attempt, start_init=(init[0]["name"],))
    return Plan(kill_pod, True, attempt, start=start)


def _is_done(pod: Pod, container: Container, observed: ObservedPod) -> bool:
    """It has ended in a way after which it is not started again, not even in a new sandbox."""
    latest = observed.latest(container["name"])
    if latest is None or latest.state is not State.EXITED or not (latest.succeeded or container.get("restartPolicy")):
        return False
    return not pods.restarts_after(pod, container, latest.exit_code)


@dataclass(frozen=True, slots=True)
class _InitStep:
    done: bool
    start: tuple[str, ...] = ()
    kill: tuple[Kill, ...] = ()
    fail: bool = False


def _init_step(pod: Pod, observed: ObservedPod, verdicts: Mapping[str, Verdict]) -> _InitStep:
    """How far initialisation is, and what moves it on. Once an ordinary container exists in this sandbox it is over, and
    only sidecars are looked after."""
    init = pods.spec_of(pod).get("initContainers") or ()
    initialized = any(observed.current(container["name"]) for container in pods.containers(pod))
    start: list[str] = []
    kill: list[Kill] = []
    for container in init:
        current = observed.current(container["name"])
        if pods.is_sidecar(container):
            ready = _sidecar(pod, container, current, verdicts, kill, start)
        elif initialized:
            continue
        elif current is not None and current.succeeded:
            ready = True
        elif current is not None and current.failed and not pods.restarts_after(pod, container, current.exit_code):
            return _InitStep(False, fail=True)
        else:
            ready = False
            if current is None or current.state is not State.RUNNING:
                start.append(container["name"])
        if not ready and not initialized:
            return _InitStep(False, tuple(start), tuple(kill))
    return _InitStep(True, tuple(start), tuple(kill))


def _sidecar(
    pod: Pod,
    container: Container,
    current: ObservedContainer | None,
    verdicts: Mapping[str, Verdict],
    kill: list[Kill],
    start: list[str],
) -> bool:
    """Keep one sidecar going; whether the next init container may start."""
    name = str(container["name"])
    if current is None or current.state is State.CREATED:
        start.append(name)
        return False
    if current.state is not State.RUNNING:
        start.append(name)  # it had started once, so what follows it goes on
        return True
    if doomed := _doomed(container, current, verdicts):
        kill.append(doomed)
        start.append(name)
        return True
    return verdicts.get(current.id, Verdict.HEALTHY) is Verdict.HEALTHY


def _regular(
    pod: Pod, container: Container, observed: ObservedPod, verdicts: Mapping[str, Verdict], kill: list[Kill], start: list[str]
) -> int:
    """Decide on one ordinary container; 1 if it goes on running untouched."""
    name = str(container["name"])
    latest = observed.latest(name)
    if latest is None or latest.state is not State.RUNNING:
        if should_restart(pod, container, latest):
            start.append(name)
        return 0
    again = (container.get("restartPolicy") or pods.restart_policy(pod)) != "Never"  # its rules speak once it has exited
    doomed = _doomed(container, latest, verdicts, again=again)
    if doomed is None:
        return 1
    kill.append(doomed)
    if again or not doomed.probe:
        start.append(name)
    return 0


def _doomed(
    container: Container, running: ObservedContainer, verdicts: Mapping[str, Verdict], *, again: bool = True
) -> Kill | None:
    name = str(container["name"])
    if running.hash and running.hash != names.container_hash(container):
        return Kill(running, f"Container {name} definition changed, will be restarted")
    verdict = verdicts.get(running.id, Verdict.HEALTHY)
    if verdict is Verdict.RESIZE:
        return Kill(running, f"Container {name} resize requires restart")
    if verdict in (Verdict.LIVENESS_FAILED, Verdict.STARTUP_FAILED):
        message = f"Container {name} failed {verdict.value}{', will be restarted' if again else ''}"
        return Kill(running, message, verdict.value)
    return None
