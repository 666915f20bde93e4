"""From records to hops: a pure function over audit events, Kubernetes Events, objects and the proxy's journal.

``cli.trace`` feeds it what ``sources`` gathered and prints the result. A hop carries the precision of its source: audit
stamps and ``eventTime`` are microseconds, conditions and creation times are whole seconds, and are printed as such.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from apimachinery.times import parse_time

Object = Mapping[str, Any]

SECOND = "second"
MICROSECOND = "microsecond"


@dataclass(frozen=True, slots=True)
class Hop:
    """One thing that happened. ``precision`` tells what ``when`` is good for; ``order`` breaks ties between whole seconds."""

    when: datetime
    precision: str
    actor: str
    subject: str  # kind/name
    text: str
    order: int = 0
    routine: bool = False  # a status write or a lost race: shown only when everything is wanted


@dataclass(frozen=True, slots=True)
class Records:
    """Everything known about an object and those it owns."""

    objects: Sequence[Object]  # the object itself first
    events: Sequence[Object] = ()  # events.k8s.io/v1
    audit: Sequence[Mapping[str, Any]] = ()  # audit.k8s.io/v1, stage ResponseComplete
    programmed: Sequence[Mapping[str, Any]] = ()  # the proxy's journal: {service, programmed, seconds}
    notes: Sequence[str] = field(default_factory=tuple)  # what could not be read


def timeline(records: Records) -> list[Hop]:
    """All hops in the order they happened; within one second, causes before effects."""
    hops = [
        *_from_audit(records.audit, records.objects),
        *_from_events(records.events),
        *(hop for obj in records.objects for hop in _from_conditions(obj)),
        *(hop for obj in records.objects for hop in _from_slice(obj)),
        *_from_proxy(records.programmed),
    ]
    return sorted(hops, key=_sort_key)


def _sort_key(hop: Hop) -> tuple[float, int, int]:
    # A time known to the second lies somewhere within it: it is shown after what is known to have begun that second.
    whole = hop.when.timestamp() if hop.precision == MICROSECOND else int(hop.when.timestamp()) + 0.999_999
    return (whole, 0 if hop.precision == MICROSECOND else 1, hop.order)


# --------------------------------------------------------------------------- the API server's audit

CONFLICT = 409  # optimistic locking: the loser reads again and goes on
_VERB_WORDS = {"create": "created", "update": "updated", "patch": "patched", "delete": "deleted"}


def _from_audit(audit: Iterable[Mapping[str, Any]], objects: Sequence[Object]) -> Iterable[Hop]:
    known = {_reference(obj) for obj in objects}
    for entry in audit:
        reference = entry.get("objectRef") or {}
        code = int((entry.get("responseStatus") or {}).get("code", 0))
        word = _VERB_WORDS.get(str(entry.get("verb")))
        name = str(reference.get("name", ""))
        kind = kind_of(str(reference.get("resource", "")))
        if word is None or (kind, str(reference.get("namespace", "")), name) not in known:
            continue
        received, stamped = str(entry.get("requestReceivedTimestamp", "")), str(entry.get("stageTimestamp", ""))
        if not received or not stamped:
            continue
        began, ended = parse_time(received), parse_time(stamped)
        user = str((entry.get("user") or {}).get("username", "?"))
        text = _audit_text(word, entry, reference, code, (ended - began).total_seconds())
        routine = code == CONFLICT or (reference.get("subresource") == "status" and code < 400)
        yield Hop(began, MICROSECOND, "apiserver", f"{kind}/{name}", f"{text} by {user}", routine=routine)


def _audit_text(word: str, entry: Mapping[str, Any], reference: Mapping[str, Any], code: int, seconds: float) -> str:
    subresource = str(reference.get("subresource", ""))
    what = {"binding": "bound", "status": "status written", "eviction": "evicted", "scale": "scaled"}.get(subresource, word)
    outcome = f"refused with {code}" if code >= 400 else what
    annotations = entry.get("annotations") or {}
    revision = annotations.get("pybernetes.io/resource-version") or reference.get("resourceVersion")
    details = [f"{seconds * 1000:.1f} ms"]
    if code < 400 and revision:
        details.insert(0, f"stored at revision {revision}")
    if decision := annotations.get("authorization.k8s.io/decision"):
        details.insert(0, f"authorization {decision}")
    return f"{outcome} ({', '.join(details)})"


# --------------------------------------------------------------------------- Events

WHY = "pybernetes.io/why"


def _from_events(events: Iterable[Object]) -> Iterable[Hop]:
    for event in events:
        regarding = event.get("regarding") or event.get("involvedObject") or {}
        stamp = event.get("eventTime")
        precision = MICROSECOND if stamp else SECOND
        stamp = stamp or event.get("deprecatedLastTimestamp") or event["metadata"].get("creationTimestamp")
        if not stamp:
            continue
        note = str(event.get("note") or event.get("message") or "")
        why = (event["metadata"].get("annotations") or {}).get(WHY)
        text = f"{event.get('reason', '')}: {note}" + (f" ({why})" if why else "")
        count = int((event.get("series") or {}).get("count", 1))
        if count > 1:
            text += f" (x{count})"
        actor = _short(str(event.get("reportingController") or (event.get("source") or {}).get("component", "?")))
        subject = f"{str(regarding.get('kind', '')).lower()}/{regarding.get('name', '')}"
        yield Hop(parse_time(str(stamp)), precision, actor, subject, text)


def _short(controller: str) -> str:
    return controller.removeprefix("kubernetes.io/").removeprefix("k8s.io/")


# --------------------------------------------------------------------------- the objects themselves

_CONDITION_ORDER = {
    "PodScheduled": 0,
    "PodReadyToStartContainers": 1,
    "Initialized": 2,
    "ContainersReady": 3,
    "Ready": 4,
    "Progressing": 5,
    "Available": 6,
}
_CONDITION_TEXT = {
    "PodReadyToStartContainers": "sandbox and network are up",
    "Initialized": "init containers are done",
    "ContainersReady": "all containers are ready",
    "Ready": "Ready",
    "Available": "Available",
}


def _from_conditions(obj: Object) -> Iterable[Hop]:
    kind, name = str(obj.get("kind", "")).lower(), obj["metadata"]["name"]
    told_better = {"PodScheduled"}  # by the Scheduled event
    if not (obj.get("spec") or {}).get("initContainers"):
        told_better.add("Initialized")
    for condition in (obj.get("status") or {}).get("conditions") or ():
        kind_of_condition, status = str(condition.get("type")), str(condition.get("status"))
        stamp = condition.get("lastTransitionTime")
        if kind_of_condition not in _CONDITION_ORDER or not stamp:
            continue
        if status == "True" and kind_of_condition in told_better:
            continue
        text = _CONDITION_TEXT.get(kind_of_condition, kind_of_condition) if status == "True" else f"not {kind_of_condition}"
        if reason := condition.get("reason"):
            text += f" ({reason})"
        actor = "kubelet" if kind == "pod" else "controller"
        yield Hop(parse_time(str(stamp)), SECOND, actor, f"{kind}/{name}", text, _CONDITION_ORDER[kind_of_condition])


TRIGGER_TIME = "endpoints.kubernetes.io/last-change-trigger-time"


def _from_slice(obj: Object) -> Iterable[Hop]:
    if obj.get("kind") != "EndpointSlice":
        return
    stamp = (obj["metadata"].get("annotations") or {}).get(TRIGGER_TIME)
    endpoints = obj.get("endpoints") or ()
    ready = sum(1 for endpoint in endpoints if (endpoint.get("conditions") or {}).get("ready", True))
    if stamp:
        text = f"endpoints published: {ready} of {len(endpoints)} ready"
        yield Hop(parse_time(str(stamp)), SECOND, "endpointslice", f"endpointslice/{obj['metadata']['name']}", text, 7)


def _from_proxy(programmed: Iterable[Mapping[str, Any]]) -> Iterable[Hop]:
    for entry in programmed:
        took = float(entry.get("seconds", 0)) * 1000
        text = f"rules programmed ({entry.get('endpoints', '?')} endpoints, sync took {took:.0f} ms)"
        name = str(entry["service"]).rpartition("/")[2]
        yield Hop(parse_time(str(entry["programmed"])), MICROSECOND, "proxy", f"service/{name}", text)


# --------------------------------------------------------------------------- names

_KINDS = {"endpointslices": "endpointslice", "replicasets": "replicaset", "statefulsets": "statefulset"}


def kind_of(resource: str) -> str:
    """The lower-case kind of a plural resource name."""
    if resource in _KINDS:
        return _KINDS[resource]
    if resource.endswith("ies"):
        return resource[:-3] + "y"
    return resource.removesuffix("es") if resource.endswith(("sses", "xes")) else resource.removesuffix("s")


def _reference(obj: Object) -> tuple[str, str, str]:
    metadata = obj["metadata"]
    return str(obj.get("kind", "")).lower(), str(metadata.get("namespace", "")), str(metadata["name"])


def render(hops: Sequence[Hop]) -> str:
    """Aligned lines: the time, the time since the hop before, who, what, and how exact a coarse time is."""
    if not hops:
        return "nothing is recorded about this object (records of removed objects and of rotated audit logs are gone)"
    actors = max(len(hop.actor) for hop in hops)
    subjects = max(len(hop.subject) for hop in hops)
    lines = [f"{'TIME':<15}  {'AFTER':>9}  {'PART':<{actors}}  {'OBJECT':<{subjects}}  WHAT"]
    previous: datetime | None = None
    for hop in hops:
        exact = hop.precision == MICROSECOND
        clock = hop.when.strftime("%H:%M:%S.%f") if exact else hop.when.strftime("%H:%M:%S") + " (s)"
        after = ""
        if exact:
            after = "" if previous is None else f"+{(hop.when - previous).total_seconds() * 1000:.1f}ms"
            previous = hop.when
        lines.append(f"{clock:<15}  {after:>9}  {hop.actor:<{actors}}  {hop.subject:<{subjects}}  {hop.text}")
    return "\n".join(lines)
