"""Small words of all explanations: names, durations, amounts, events."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from apimachinery import quantity
from apimachinery.meta import Object, name_of, namespace_of
from apimachinery.objects.requests import CPU
from controlplane.apiserver.registry.printing import human_duration
from why.snapshot import Snapshot, event_time, moment

_FEW = 5
_LONG = 400


def subject(obj: Object) -> str:
    """``pod/web``."""
    return f"{str(obj.get('kind') or 'object').lower()}/{name_of(obj)}"


def flag(obj: Object) -> str:
    """`` -n shop``, ready to follow a name in a command; empty for what has no namespace."""
    namespace = namespace_of(obj)
    return f" -n {namespace}" if namespace else ""


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def few(names: Iterable[str]) -> str:
    """The first names, and how many more there are."""
    listed = list(names)
    text = ", ".join(listed[:_FEW])
    return f"{text} and {len(listed) - _FEW} more" if len(listed) > _FEW else text


def ago(snapshot: Snapshot, text: Any) -> str:
    """How long since a time of the API; empty for none."""
    when = moment(text)
    return human_duration((snapshot.now - when).total_seconds()) if when is not None else ""


def for_time(snapshot: Snapshot, text: Any) -> str:
    """`` for 5m``, or nothing."""
    age = ago(snapshot, text)
    return f" for {age}" if age else ""


def since(snapshot: Snapshot, when: datetime) -> str:
    return human_duration((snapshot.now - when).total_seconds())


def amount(resource: str, count: int) -> str:
    """A count in the units of ``objects.requests``, as people write it."""
    if resource == CPU:
        return str(quantity.of_milli(count))
    binary = "memory" in resource or "storage" in resource or resource.startswith("hugepages-")
    return str(quantity.of(count, "BinarySI" if binary else "DecimalSI"))


def pairs(labels: Mapping[str, Any]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def short(text: Any) -> str:
    """One line, not too long."""
    line = " ".join(str(text).split())
    return line if len(line) <= _LONG else line[: _LONG - 3] + "..."


def told(snapshot: Snapshot, event: Object) -> str:
    """An event as evidence: ``event FailedCreate 12s ago (x4): text``."""
    count = int((event.get("series") or {}).get("count") or event.get("count") or 1)
    often = f" (x{count})" if count > 1 else ""
    return f"event {event.get('reason')} {since(snapshot, event_time(event))} ago{often}: {short(event.get('message') or '')}"


def latest(snapshot: Snapshot, obj: Object, *reasons: str) -> tuple[str, ...]:
    """The last event of these reasons as evidence, if there is one."""
    found = snapshot.events(obj, *reasons)
    return (told(snapshot, found[0]),) if found else ()


def warnings(snapshot: Snapshot, obj: Object, limit: int = 3) -> tuple[str, ...]:
    """The latest warnings about an object, one of each reason."""
    seen: dict[str, Object] = {}
    for event in snapshot.events(obj):
        if event.get("type") == "Warning":
            seen.setdefault(str(event.get("reason")), event)
    return tuple(told(snapshot, event) for event in list(seen.values())[:limit])


def condition_text(condition: Mapping[str, Any]) -> str:
    """``Ready=False (KubeletNotReady): text``."""
    reason = f" ({condition['reason']})" if condition.get("reason") else ""
    message = f": {short(condition['message'])}" if condition.get("message") else ""
    return f"condition {condition.get('type')}={condition.get('status')}{reason}{message}"


def joined(parts: Sequence[str]) -> str:
    return "; ".join(part for part in parts if part)
