"""The ``status`` of a pod, computed from what the runtime holds, what the probes say and what was reported before. Pure.

Called by the pod worker after every look at the runtime; ``status.py`` sends the result to the API server.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from apimachinery.meta import generation, get_condition
from apimachinery.objects import pods
from apimachinery.times import format_time
from node.kubelet.resize.allocations import Record
from node.kubelet.resize.plan import ERROR, IN_PROGRESS, PENDING, Resources, with_resources
from node.kubelet.runtime.actions import should_restart, trigger
from node.kubelet.runtime.observed import ObservedContainer, ObservedPod, State

_LOST = "ContainerStatusUnknown"
_LOST_EXIT = 137
_RESTARTING = "AllContainersRestarting"

Pod = Mapping[str, Any]
Container = Mapping[str, Any]
Status = dict[str, Any]


class Failure(NamedTuple):
    """Why the kubelet ends a pod as Failed. ``disrupted``: not for anything that the pod itself did or was. ``rejected``: it was
    never let in, so there is nothing to say of its containers."""

    reason: str
    message: str
    disrupted: bool = False
    rejected: bool = False


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything beside the pod and its observation. ``ready`` and ``started`` answer by container id.

    ``stopped`` says that the pod was told to end and nothing of it runs any more; ``failure`` ends it as Failed whatever its
    containers did.
    """

    now: datetime
    previous: Mapping[str, Any] = field(default_factory=dict)
    waiting: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    ready: Callable[[str], bool] = field(default=lambda container_id: True)
    started: Callable[[str], bool] = field(default=lambda container_id: True)
    node_ips: Sequence[str] = ()
    runtime_name: str = "containerd"
    stopped: bool = False
    failure: Failure | None = None
    record: Record | None = None  # what its containers were given
    resource_health: Callable[[str], Sequence[Mapping[str, Any]]] = field(default=lambda container: ())
    """How what a container was given is, for its ``allocatedResourcesStatus``."""
    recursive: bool = False  # read-only mounts can be so to the bottom


def pod_status(pod: Pod, observed: ObservedPod, given: Inputs) -> Status:
    """The whole status, in the API's form, without fields that other components own."""
    if given.failure and given.failure.rejected:
        return _rejected(pod, given, given.failure)
    spec = pods.spec_of(pod)
    init = [_container_status(pod, each, observed, given, init=True) for each in spec.get("initContainers") or ()]
    main = [_container_status(pod, each, observed, given, init=False) for each in spec.get("containers") or ()]
    for each in main:
        if health := given.resource_health(each["name"]):
            each["allocatedResourcesStatus"] = list(health)
    ephemeral = [
        _container_status(pod, each, observed, given, init=False)
        for each in spec.get("ephemeralContainers") or ()
        if observed.latest(each["name"]) or each["name"] in given.waiting
    ]
    if given.stopped and _initialized(pod, init):
        for each in (*init, *main):
            _lose(each)
    status: Status = {"phase": _phase(pod, init, main, given)}
    if given.failure:
        status["reason"], status["message"] = given.failure.reason, given.failure.message
    status["conditions"] = _conditions(pod, status["phase"], init, main, observed, given)
    status["startTime"] = given.previous.get("startTime") or format_time(given.now)
    status |= _addresses(pod, observed, given)
    for name, listed in (
        ("initContainerStatuses", init),
        ("containerStatuses", main),
        ("ephemeralContainerStatuses", ephemeral),
    ):
        if listed:
            status[name] = listed
    if generation(pod):
        status["observedGeneration"] = generation(pod)
    return status


def _rejected(pod: Pod, given: Inputs, failure: Failure) -> Status:
    status: Status = {"phase": "Failed", "reason": failure.reason, "message": failure.message}
    status["startTime"] = given.previous.get("startTime") or format_time(given.now)
    if generation(pod):
        status["observedGeneration"] = generation(pod)
    return status


def _addresses(pod: Pod, observed: ObservedPod, given: Inputs) -> Status:
    made: Status = {}
    if given.node_ips:
        made["hostIP"] = given.node_ips[0]
        made["hostIPs"] = [{"ip": ip} for ip in given.node_ips]
    ips: Sequence[str] = given.node_ips if pods.is_host_network(pod) else observed.ips
    if not ips:  # a stopped sandbox has no address any more; the last one stays on record
        ips = [each["ip"] for each in given.previous.get("podIPs") or () if each.get("ip")]
    if ips and (observed.sandboxes or given.previous.get("podIP")):
        made["podIP"] = ips[0]
        made["podIPs"] = [{"ip": ip} for ip in ips]
    return made


# Containers


def _container_status(pod: Pod, container: Container, observed: ObservedPod, given: Inputs, *, init: bool) -> Status:
    name = str(container["name"])
    latest = observed.latest(name)
    before = _reported(given.previous, name)
    status: Status = {"name": name, "state": {}, "lastState": {}, "ready": False, "restartCount": 0}
    status["image"], status["imageID"] = str(container.get("image") or ""), ""
    if latest is None:
        _absent(pod, status, before, _is_restarting(given))
    else:
        _present(status, latest, observed.previous(name), before, given)
    reason = given.waiting.get(name)
    if reason and not given.stopped and should_restart(pod, container, latest):
        if "terminated" in status["state"]:
            status["lastState"] = status["state"]
        status["state"] = {"waiting": {"reason": reason[0], **({"message": reason[1]} if reason[1] else {})}}
    _add_declared(status, container, given.record.actuated.get(name) if given.record is not None else None, given.recursive)
    running = "running" in status["state"]
    status["started"] = running and latest is not None and given.started(latest.id)
    if init and not pods.is_sidecar(container):
        status["ready"] = status["state"].get("terminated", {}).get("exitCode") == 0
    else:
        status["ready"] = bool(status["started"] and latest is not None and given.ready(latest.id))
    return status


def _add_declared(status: Status, container: Container, actuated: Resources | None, recursive: bool) -> None:
    """What the container was given: its resources, those allocated and those that it runs with, and its mounts. ``recursive``:
    the runtime can make what is mounted below a read-only mount read-only, too."""
    resources = container.get("resources") or {}
    if resources.get("requests"):
        status["allocatedResources"] = resources["requests"]
    if resources:
        shown = (with_resources(container, actuated).get("resources") or {}) if actuated else resources
        status["resources"] = {key: shown[key] for key in ("limits", "requests") if shown.get(key)}
    mounts = []
    for mount in container.get("volumeMounts") or ():
        shown = {"name": mount["name"], "mountPath": mount["mountPath"]}
        if mount.get("readOnly"):
            whole = recursive and (mount.get("recursiveReadOnly") or "Disabled") != "Disabled"
            shown |= {"readOnly": True, "recursiveReadOnly": "Enabled" if whole else "Disabled"}
        mounts.append(shown)
    if mounts:
        status["volumeMounts"] = mounts


def _is_restarting(given: Inputs) -> bool:
    held = get_condition({"status": given.previous}, _RESTARTING)
    return held is not None and held.get("status") == "True"


def _absent(pod: Pod, status: Status, before: Mapping[str, Any], restarting: bool) -> None:
    """Not in the runtime: never started yet, removed to begin anew with all others, or forgotten by it."""
    state = before.get("state") or {}
    status["restartCount"] = int(before.get("restartCount") or 0)
    status["lastState"] = before.get("lastState") or {}
    if "terminated" in state and restarting:
        status["lastState"] = state
    elif "terminated" in state:
        status["state"] = state
        status["image"], status["imageID"] = before.get("image", ""), before.get("imageID", "")
        if before.get("containerID"):
            status["containerID"] = before["containerID"]
        return
    if "running" in state:
        message = "The container could not be located when the pod was deleted.  The container used to be Running"
        lost = {"exitCode": _LOST_EXIT, "reason": _LOST, "message": message}
        status["lastState"] = {"terminated": lost}
        status["restartCount"] += 1
    waiting = "PodInitializing" if pods.spec_of(pod).get("initContainers") else "ContainerCreating"
    status["state"] = {"waiting": {"reason": waiting}}


def _present(
    status: Status, latest: ObservedContainer, previous: ObservedContainer | None, before: Mapping[str, Any], given: Inputs
) -> None:
    identity = f"{given.runtime_name}://{latest.id}"
    status["state"] = _state(latest, identity)
    status["restartCount"] = latest.restart_count
    status["image"], status["imageID"] = latest.image or status["image"], latest.image_id
    status["containerID"] = identity
    if latest.stop_signal:
        status["stopSignal"] = latest.stop_signal
    if latest.user is not None:
        status["user"] = {"linux": dict(latest.user)}
    if previous is not None:
        status["lastState"] = _state(previous, f"{given.runtime_name}://{previous.id}")
    elif before.get("lastState") and latest.restart_count > 0:
        status["lastState"] = before["lastState"]


def _state(container: ObservedContainer, identity: str) -> Status:
    match container.state:
        case State.RUNNING:
            return {"running": {"startedAt": _time(container.started_at)}}
        case State.EXITED:
            ended: Status = {
                "exitCode": container.exit_code,
                "reason": container.reason or ("Completed" if container.exit_code == 0 else "Error"),
                "startedAt": _time(container.started_at),
                "finishedAt": _time(container.finished_at),
                "containerID": identity,
            }
            if container.message:
                ended["message"] = container.message
            return {"terminated": ended}
        case State.UNKNOWN:
            message = "The container could not be located when the pod was terminated"
            lost = {"exitCode": _LOST_EXIT, "reason": _LOST, "message": message}
            return {"terminated": lost}
    return {"waiting": {"reason": "ContainerCreating"}}


def _lose(status: Status) -> None:
    """After its end a pod that had been initialised shows every container as terminated."""
    if "terminated" not in status["state"]:
        message = "The container could not be located when the pod was terminated"
        lost = {"exitCode": _LOST_EXIT, "reason": _LOST, "message": message}
        status["state"], status["ready"], status["started"] = {"terminated": lost}, False, False


def _time(nanoseconds: int) -> str | None:
    return format_time(datetime.fromtimestamp(nanoseconds // 1_000_000_000, UTC)) if nanoseconds > 0 else None


def _reported(previous: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    for field_name in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for each in previous.get(field_name) or ():
            if each.get("name") == name:
                return dict(each)
    return {}


def _initialized(pod: Pod, init: Sequence[Status]) -> bool:
    spec = pods.spec_of(pod)
    for container, status in zip(spec.get("initContainers") or (), init, strict=True):
        done = status["state"].get("terminated", {}).get("exitCode") == 0
        if not (done or (pods.is_sidecar(container) and (status["started"] or "terminated" in status["state"]))):
            return False
    return True


# Phase


def _phase(pod: Pod, init: Sequence[Status], main: Sequence[Status], given: Inputs) -> str:
    before = str(given.previous.get("phase") or "")
    if given.failure or before == "Failed":
        return "Failed"
    if before == "Succeeded":
        return "Succeeded"
    init_specs = pods.spec_of(pod).get("initContainers") or ()
    for container, status in zip(init_specs, init, strict=True):
        ended = status["state"].get("terminated")
        if not ended or ended["exitCode"] == 0 or pods.is_sidecar(container):
            continue
        if given.stopped or not pods.restarts_after(pod, container, ended["exitCode"]):
            return "Failed"
    if not _initialized(pod, init) and not any(_ran(status) for status in main):
        return "Failed" if given.stopped else "Pending"
    running = sum("running" in status["state"] for status in main)
    waiting = sum("waiting" in status["state"] and not status["lastState"].get("terminated") for status in main)
    codes = [ended["exitCode"] for status in main if (ended := _ended(status)) is not None]
    if waiting:
        return "Failed" if given.stopped else "Pending"
    if running or not codes:
        return "Running" if running else "Pending"
    if not given.stopped and _goes_on(pod, main):
        return "Running"
    return "Failed" if any(codes) else "Succeeded"


def _goes_on(pod: Pod, main: Sequence[Status]) -> bool:
    """Whether some container that does not run will be started again."""
    all_anew = pods.may_restart_all(pod)
    for container, status in zip(pods.containers(pod), main, strict=True):
        ended = _ended(status)
        if ended is not None and pods.restarts_after(pod, container, ended["exitCode"]):
            return True
        if all_anew and "waiting" in status["state"]:
            return True  # removed with all others
    return False


def _ran(status: Status) -> bool:
    return "waiting" not in status["state"] or bool(status["lastState"].get("terminated"))


def _ended(status: Status) -> Mapping[str, Any] | None:
    ended: Mapping[str, Any] | None = status["state"].get("terminated")
    if ended is None and "waiting" in status["state"]:
        ended = status["lastState"].get("terminated")
    return ended


# Conditions


def _conditions(
    pod: Pod, phase: str, init: Sequence[Status], main: Sequence[Status], observed: ObservedPod, given: Inputs
) -> list[Status]:
    sandbox = observed.sandbox
    networked = sandbox is not None and sandbox.ready and bool(observed.ips or pods.is_host_network(pod))
    containers_ready = _containers_ready(pod, phase, init, main)
    ready = containers_ready if containers_ready["status"] != "True" else _gates(pod, given)
    wanted = [
        {"type": "PodReadyToStartContainers", "status": "True" if networked else "False"},
        {"type": "Initialized", **_initialized_condition(pod, phase, init)},
        {"type": "Ready", **ready},
        {"type": "ContainersReady", **containers_ready},
        {"type": "PodScheduled", "status": "True"},
    ]
    if given.failure and given.failure.disrupted:
        why = {"reason": "TerminationByKubelet", "message": given.failure.message}
        wanted.append({"type": "DisruptionTarget", "status": "True", **why})
    wanted += _restarting_condition(pod, phase, observed)
    wanted += _resize_conditions(given.record, phase)
    return [_dated(pod, each, given) for each in wanted]


def _restarting_condition(pod: Pod, phase: str, observed: ObservedPod) -> list[Status]:
    """Whether all containers are on their way to a new beginning, for pods in which that can happen."""
    if not pods.may_restart_all(pod):
        return []
    over = {"Succeeded": {"reason": "PodCompleted"}, "Failed": {"reason": "PodFailed"}}.get(phase)
    if over is not None or trigger(pod, observed) is None:
        return [{"type": _RESTARTING, "status": "False", **(over or {})}]
    why = {"reason": "RestartAllContainersStarted", "message": "container exited with restart policy rule"}
    return [{"type": _RESTARTING, "status": "True", **why}]


def _resize_conditions(record: Record | None, phase: str) -> list[Status]:
    """Why a resize is not (yet) done; both are absent when there is none."""
    if record is None or phase in ("Succeeded", "Failed"):
        return []
    found: list[Status] = []
    if record.refusal is not None:
        why = {"reason": record.refusal.reason, "message": record.refusal.message}
        found.append({"type": PENDING, "status": "True", **why})
    if record.lagging():
        why = {"reason": ERROR, "message": record.error} if record.error else {}
        found.append({"type": IN_PROGRESS, "status": "True", **why})
    return found


def _dated(pod: Pod, wanted: Status, given: Inputs) -> Status:
    held = get_condition({"status": given.previous}, wanted["type"]) or get_condition(pod, wanted["type"])
    same = held is not None and held.get("status") == wanted["status"]
    since = held.get("lastTransitionTime") if held is not None and same else None
    dated = {**wanted, "lastTransitionTime": since or format_time(given.now)}
    if generation(pod):
        dated["observedGeneration"] = generation(pod)
    return dated


def _initialized_condition(pod: Pod, phase: str, init: Sequence[Status]) -> Status:
    """A pod that failed while it was initialized still says which containers kept it."""
    if phase == "Succeeded":
        return {"status": "True", "reason": "PodCompleted"}
    if _initialized(pod, init):
        return {"status": "True"}
    late = [status["name"] for status in init if status["state"].get("terminated", {}).get("exitCode") != 0]
    message = f"containers with incomplete status: [{' '.join(late)}]"
    return {"status": "False", "reason": "ContainersNotInitialized", "message": message}


def _containers_ready(pod: Pod, phase: str, init: Sequence[Status], main: Sequence[Status]) -> Status:
    if phase == "Succeeded":
        return {"status": "False", "reason": "PodCompleted"}
    if phase == "Failed":
        return {"status": "False", "reason": "PodFailed"}
    sidecars = {each["name"] for each in pods.spec_of(pod).get("initContainers") or () if pods.is_sidecar(each)}
    counted = [*(status for status in init if status["name"] in sidecars), *main]
    unready = [status["name"] for status in counted if not status["ready"]]
    if unready:
        message = f"containers with unready status: [{' '.join(unready)}]"
        return {"status": "False", "reason": "ContainersNotReady", "message": message}
    return {"status": "True"}


def _gates(pod: Pod, given: Inputs) -> Status:
    """Containers are ready; the pod is when its readiness gates agree."""
    problems = []
    for gate in pods.spec_of(pod).get("readinessGates") or ():
        kind = gate["conditionType"]
        held = get_condition(pod, kind) or get_condition({"status": given.previous}, kind)
        if held is None:
            problems.append(f'corresponding condition of pod readiness gate "{kind}" does not exist.')
        elif held.get("status") != "True":
            problems.append(f'the status of pod readiness gate "{kind}" is not "True", but {held.get("status")}')
    if not problems:
        return {"status": "True"}
    text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
    return {"status": "False", "reason": "ReadinessGatesNotReady", "message": text}
