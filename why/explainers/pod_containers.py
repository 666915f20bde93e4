"""Containers that do not start, do not stay, or are not ready: one cause for each, init containers first."""

import re
from collections.abc import Mapping
from typing import Any

from apimachinery.meta import Object, name_of, namespace_of
from apimachinery.objects import pods
from component.flags import parse_duration
from controlplane.apiserver.registry.printing import human_duration
from why.cause import Cause
from why.snapshot import Snapshot, moment
from why.words import ago, flag, latest, plural, short, told

Status = Mapping[str, Any]

_LINES = 5  # of a log
_BACKOFF = re.compile(r"back-off ((?:\d+[hms])+)")
_PULLING = frozenset({"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "SignatureValidationFailed"})
_MEANINGS = {
    126: "the command cannot be executed (permission, or not a program)",
    127: "the command was not found in the image",
    134: "it aborted (SIGABRT)",
    137: "it was killed (SIGKILL)",
    139: "it crashed by a bad memory access (SIGSEGV)",
    143: "it was told to end (SIGTERM)",
}


def container_causes(snapshot: Snapshot, pod: Object) -> list[Cause]:
    """Init containers come before ordinary ones: while one of them is unfinished, only they are told of."""
    status = pod.get("status") or {}
    spec = pods.spec_of(pod)
    described = {str(each.get("name")): each for each in pods.all_containers(pod)}
    first = [
        cause
        for each in status.get("initContainerStatuses") or ()
        if (cause := _cause(snapshot, pod, described.get(str(each.get("name")), {}), each, "init container")) is not None
    ]
    if first or _is_initialising(spec, status):
        return first
    return [
        cause
        for each in status.get("containerStatuses") or ()
        if (cause := _cause(snapshot, pod, described.get(str(each.get("name")), {}), each, "container")) is not None
    ]


def _is_initialising(spec: Mapping[str, Any], status: Status) -> bool:
    sidecars = {each.get("name") for each in spec.get("initContainers") or () if pods.is_sidecar(each)}
    return any(
        "running" in (each.get("state") or {}) and each.get("name") not in sidecars
        for each in status.get("initContainerStatuses") or ()
    )


def _cause(snapshot: Snapshot, pod: Object, container: Mapping[str, Any], status: Status, what: str) -> Cause | None:
    state = status.get("state") or {}
    where = f"{what} {status.get('name')}"
    if state.get("waiting"):
        return _waiting(snapshot, pod, container, status, where)
    if state.get("terminated"):
        return _ended(snapshot, pod, container, status, where, what)
    if state.get("running") is not None:
        return _running(snapshot, pod, container, status, where, what)
    return None


def _waiting(snapshot: Snapshot, pod: Object, container: Mapping[str, Any], status: Status, where: str) -> Cause | None:
    waiting = status["state"]["waiting"]
    reason, message = str(waiting.get("reason") or ""), short(waiting.get("message") or "")
    if reason in ("ContainerCreating", "PodInitializing", ""):
        return None
    if reason in _PULLING:
        return _pull(snapshot, pod, status, where, reason, message)
    if reason == "CrashLoopBackOff":
        return _crash_loop(snapshot, pod, container, status, where)
    evidence = (message,) if message else latest(snapshot, pod, "Failed")
    match reason:
        case "InvalidImageName":
            return Cause(f"{where}: its image name {status.get('image')!r} cannot be parsed", evidence, "correct the image")
        case "ErrImageNeverPull":
            step = "load the image on the node, or set imagePullPolicy: IfNotPresent"
            return Cause(f"{where}: imagePullPolicy is Never and the node has no {status.get('image')}", evidence, step)
        case "CreateContainerConfigError":
            return _config_error(snapshot, pod, container, where, evidence)
        case "PostStartHookError":
            return Cause(f"{where}: its postStart hook fails", (*evidence, *latest(snapshot, pod, "FailedPostStartHook")),
                         "try the hook's command in the image; the container is killed when it fails")  # fmt: skip
    ended = _run(status)
    more = (f"last run {_ended_text(snapshot, ended)}",) if ended else ()
    return Cause(f"{where}: {reason}", (*evidence, *more), f"kubectl describe pod {name_of(pod)}{flag(pod)}")


def _pull(snapshot: Snapshot, pod: Object, status: Status, where: str, reason: str, message: str) -> Cause:
    """``Failed`` events hold the registry's own answer; while in back-off the status tells only of waiting."""
    image = str(status.get("image") or "its image")
    failures = [each for each in snapshot.events(pod, "Failed") if image in str(each.get("message"))]
    evidence = [told(snapshot, failures[0])] if failures else []
    if message and not failures:  # else it repeats what the event has
        evidence.append(f"{reason}: {message}")
    backoffs = snapshot.events(pod, "BackOff")
    if reason == "ImagePullBackOff" and backoffs:
        count = int(backoffs[0].get("count") or 1)
        evidence.append(f"tried again after 10s, then twice as long each time, 5m at most; {plural(count, 'back-off')} so far")
    answer = " ".join([*(str(each.get("message")) for each in failures[:1]), message]).lower()
    return Cause(f"{where}: image {image} cannot be pulled", tuple(evidence), _pull_step(pod, image, answer))


def _pull_step(pod: Object, image: str, answer: str) -> str:
    if any(word in answer for word in ("unauthorized", "authentication", "denied", "forbidden", "401", "403")):
        names = ", ".join(str(each.get("name")) for each in pods.spec_of(pod).get("imagePullSecrets") or ())
        if names:
            return f"the registry refuses the Secret {names} of imagePullSecrets, or has no such repository"
        return (
            "make a Secret (kubectl create secret docker-registry), name it in imagePullSecrets; or there is no such repository"
        )
    if any(word in answer for word in ("not found", "manifest unknown", "not_found")):
        return f"check the name and the tag of {image}: the registry has no such image"
    if any(word in answer for word in ("no such host", "dial tcp", "timeout", "refused", "i/o", "unreachable", "resolve")):
        return "the node does not reach the registry: check its DNS, proxy and network"
    if "x509" in answer or "tls" in answer or "http response to https" in answer:
        return "the node's runtime does not trust the registry: give containerd its CA, or mark the registry as plain HTTP"
    if "429" in answer or "toomanyrequests" in answer:
        return "the registry limits this node: log in by imagePullSecrets, or use a mirror"
    return f"try it on the node: crictl pull {image}"


def _config_error(snapshot: Snapshot, pod: Object, container: Mapping[str, Any], where: str, evidence: tuple[str, ...]) -> Cause:
    """A ConfigMap, Secret or key that its environment refers to is missing."""
    missing = tuple(_missing_sources(snapshot, pod, container))
    step = "" if missing else f"kubectl describe pod {name_of(pod)}{flag(pod)}"
    return Cause(f"{where}: its environment cannot be made", evidence, step, missing)


def _missing_sources(snapshot: Snapshot, pod: Object, container: Mapping[str, Any]) -> list[Cause]:
    namespace = namespace_of(pod)
    wanted: dict[tuple[str, str], str] = {}
    for each in container.get("envFrom") or ():
        for field, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
            reference = each.get(field) or {}
            if reference.get("name") and not reference.get("optional"):
                wanted.setdefault((kind, str(reference["name"])), "envFrom")
    for each in container.get("env") or ():
        source = each.get("valueFrom") or {}
        for field, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
            reference = source.get(field) or {}
            if reference.get("name") and not reference.get("optional"):
                wanted.setdefault((kind, str(reference["name"])), f"env {each.get('name')}, key {reference.get('key')}")
    return [
        missing(kind, name, pod, f"used by {use}")
        for (kind, name), use in wanted.items()
        if snapshot.is_missing(kind, name, namespace)
    ]


def missing(kind: str, name: str, pod: Object, use: str) -> Cause:
    """A ConfigMap or Secret that does not exist."""
    made = "configmap" if kind == "ConfigMap" else "secret generic"
    step = f"kubectl create {made} {name}{flag(pod)} --from-literal=KEY=VALUE"
    return Cause(f"{kind.lower()}/{name} does not exist", (use,), step)


def _run(status: Status) -> Mapping[str, Any]:
    """The last run that ended, or nothing."""
    return (status.get("state") or {}).get("terminated") or (status.get("lastState") or {}).get("terminated") or {}


def _ended_text(snapshot: Snapshot, ended: Mapping[str, Any]) -> str:
    code = ended.get("exitCode")
    meaning = f", {_MEANINGS[code]}" if isinstance(code, int) and code in _MEANINGS else ""
    reason = f" ({ended['reason']})" if ended.get("reason") else ""
    began, finished = moment(ended.get("startedAt")), moment(ended.get("finishedAt"))
    lasted = f" after {human_duration((finished - began).total_seconds())}" if began and finished else ""
    age = ago(snapshot, ended.get("finishedAt"))
    return f"ended with exit code {code}{reason}{lasted}{f', {age} ago' if age else ''}{meaning}"


def _crash_loop(snapshot: Snapshot, pod: Object, container: Mapping[str, Any], status: Status, where: str) -> Cause:
    ended = _run(status)
    restarts = int(status.get("restartCount") or 0)
    evidence = [f"last run {_ended_text(snapshot, ended)}"] if ended else []
    if ended.get("message"):
        evidence.append(f"its termination message: {short(ended['message'])}")
    finished = moment(ended.get("finishedAt"))
    pause = _pause(str(status["state"]["waiting"].get("message") or ""))
    if finished is not None and pause is not None:
        left = pause - (snapshot.now - finished).total_seconds()
        evidence.append(
            f"back-off of {human_duration(pause)}: next start in {human_duration(left)}" if left > 0 else "starts now"
        )
    evidence += log_lines(snapshot, pod, str(status.get("name")))
    return Cause(f"{where}: it has ended {restarts + 1} times and is being restarted (CrashLoopBackOff)", tuple(evidence),
                 _exit_step(pod, status, ended), tuple(_killers(snapshot, pod, container, status, ended)))  # fmt: skip


def _pause(message: str) -> float | None:
    """The back-off that the kubelet names, in seconds."""
    found = _BACKOFF.search(message)
    return parse_duration(found[1]) if found else None


def restarts(snapshot: Snapshot, pod: Object) -> list[Cause]:
    """What containers that run now have been through: a pod may be Ready and yet fall over again and again."""
    return [
        Cause(
            f"container {each.get('name')} has been restarted {each['restartCount']} times",
            (f"last run {_ended_text(snapshot, _run(each))}",),
            _exit_step(pod, each, _run(each)),
        )
        for each in pods.container_statuses(pod)
        if each.get("restartCount") and _run(each)
    ]


def log_lines(snapshot: Snapshot, pod: Object, container: str) -> list[str]:
    """The end of the last run's log, as evidence."""
    log = snapshot.logs.get((namespace_of(pod), name_of(pod), container))
    if log is None:
        return []
    lines = [line for line in log.splitlines() if line.strip()][-_LINES:]
    return [f"log: {short(line)}" for line in lines] or ["its log is empty"]


def _exit_step(pod: Object, status: Status, ended: Mapping[str, Any]) -> str:
    name, where = status.get("name"), f"{name_of(pod)}{flag(pod)}"
    if ended.get("reason") == "OOMKilled":
        return f"raise resources.limits.memory of {name}, or have it use less"
    if ended.get("exitCode") in (126, 127) or ended.get("reason") in ("StartError", "ContainerCannotRun"):
        return f"correct command and args of {name}: its image has no such program"
    if ended.get("exitCode") == 0:
        return "a container that ends well is restarted, too: run a Job, or a command that stays"
    return f"kubectl logs {where} -c {name} --previous"


def _killers(
    snapshot: Snapshot, pod: Object, container: Mapping[str, Any], status: Status, ended: Mapping[str, Any]
) -> list[Cause]:
    """What ended it from outside: the memory limit, or a probe."""
    if ended.get("reason") == "OOMKilled":
        limit = ((container.get("resources") or {}).get("limits") or {}).get("memory")
        return [Cause(f"it used more memory than its limit of {limit}" if limit else "the node was out of memory")]
    failing = _probe_events(snapshot, pod, str(status.get("name")), "Liveness", "Startup")
    if failing and ended.get("exitCode") in (137, 143, None):
        kind = str(failing[0].get("message")).split(" ", 1)[0].lower()
        shown = _probe_text(container.get(f"{kind}Probe") or {})
        return [Cause(f"its {kind} probe failed, so the kubelet killed it{shown}", (told(snapshot, failing[0]),),
                      f"try the probe by hand; a slow start wants a startupProbe or a longer {kind}Probe")]  # fmt: skip
    return []


def _probe_events(snapshot: Snapshot, pod: Object, container: str, *kinds: str) -> list[Object]:
    return [
        event
        for event in snapshot.events(pod, "Unhealthy")
        if str(event.get("message")).startswith(kinds)
        and f"{{{container}}}" in str((event.get("involvedObject") or {}).get("fieldPath") or f"{{{container}}}")
    ]


def _probe_text(probe: Mapping[str, Any]) -> str:
    if not probe:
        return ""
    if "httpGet" in probe:
        get = probe["httpGet"] or {}
        what = f"GET {get.get('path') or '/'} on port {get.get('port')}"
    elif "tcpSocket" in probe:
        what = f"TCP port {(probe['tcpSocket'] or {}).get('port')}"
    elif "grpc" in probe:
        what = f"gRPC port {(probe['grpc'] or {}).get('port')}"
    else:
        what = "exec " + " ".join(str(each) for each in (probe.get("exec") or {}).get("command") or ())
    period, limit = probe.get("periodSeconds") or 10, probe.get("timeoutSeconds") or 1
    return f" ({short(what)}, each {period}s, timeout {limit}s, {probe.get('failureThreshold') or 3} failures)"


def _ended(snapshot: Snapshot, pod: Object, container: Mapping[str, Any], status: Status, where: str, what: str) -> Cause | None:
    ended = status["state"]["terminated"]
    if ended.get("exitCode") == 0:
        if what == "init container" or pods.restart_policy(pod) != "Always":
            return None
        return Cause(f"{where}: it {_ended_text(snapshot, ended)}, and is about to be restarted")
    evidence = [short(ended["message"])] if ended.get("message") else []
    evidence += log_lines(snapshot, pod, str(status.get("name")))
    causes = tuple(_killers(snapshot, pod, container, status, ended))
    return Cause(f"{where}: it {_ended_text(snapshot, ended)}", tuple(evidence),
                 _exit_step(pod, status, ended).replace(" --previous", ""), causes)  # fmt: skip


def _running(
    snapshot: Snapshot, pod: Object, container: Mapping[str, Any], status: Status, where: str, what: str
) -> Cause | None:
    if what == "init container" and not pods.is_sidecar(container):
        age = ago(snapshot, (status["state"]["running"] or {}).get("startedAt"))
        return Cause(f"{where}: it has not finished{f' in {age}' if age else ''}, and the others wait for it",
                     step=f"kubectl logs {name_of(pod)}{flag(pod)} -c {status.get('name')}")  # fmt: skip
    if status.get("ready"):
        return None
    restarts = int(status.get("restartCount") or 0)
    history = (
        (f"restarted {restarts} times; last run {_ended_text(snapshot, _run(status))}",) if restarts and _run(status) else ()
    )
    if container.get("startupProbe") and not status.get("started"):
        return _probe_cause(snapshot, pod, container, where, "startup", history)
    if container.get("readinessProbe"):
        return _probe_cause(snapshot, pod, container, where, "readiness", history)
    return Cause(f"{where}: it runs, but is not ready yet", history, f"kubectl describe pod {name_of(pod)}{flag(pod)}")


def _probe_cause(
    snapshot: Snapshot, pod: Object, container: Mapping[str, Any], where: str, kind: str, history: tuple[str, ...]
) -> Cause:
    events = _probe_events(snapshot, pod, str(container.get("name")), kind.capitalize())
    evidence = (told(snapshot, events[0]),) if events else ("it has not succeeded yet, and no failure has been told",)
    step = f"try the probe by hand: kubectl exec {name_of(pod)}{flag(pod)} -c {container.get('name')} -- ..."
    return Cause(
        f"{where}: its {kind} probe fails{_probe_text(container.get(f'{kind}Probe') or {})}", (*evidence, *history), step
    )


def wants_log(pod: Object) -> list[tuple[str, bool]]:
    """Containers whose log tells why the pod is as it is, and whether it is the previous run's. For ``reading``."""
    found = []
    for status in pods.container_statuses(pod):
        state = status.get("state") or {}
        name = str(status.get("name"))
        if (state.get("waiting") or {}).get("reason") == "CrashLoopBackOff" or (state.get("terminated") or {}).get("exitCode"):
            found.append((name, False))
        elif "running" in state and not status.get("ready") and (status.get("lastState") or {}).get("terminated"):
            found.append((name, True))
    return found
