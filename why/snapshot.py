"""What was read of a cluster at one moment. Filled by ``reading`` or by a test; explainers only ask."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from apimachinery.meta import Object, controller_of, labels_of, name_of, namespace_of, uid_of
from apimachinery.times import parse_time

EVERYWHERE = ""


@dataclass(frozen=True, slots=True)
class Scope:
    """What one read covered: all of a kind, or that of one namespace."""

    kind: str
    namespace: str = EVERYWHERE


@dataclass(slots=True, eq=False)  # one is itself alone: what was worked out about it is kept by identity
class Snapshot:
    """``objects`` all have a ``kind``. ``whole`` tells which collections were read to the end, so that what is not in them
    does not exist; ``unread`` why others were not (kind to reason)."""

    objects: Iterable[Object]
    now: datetime
    whole: Collection[Scope] = ()
    unread: Mapping[str, str] = field(default_factory=dict)
    logs: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    """The end of the last run's log by namespace, pod and container."""
    _by_kind: dict[str, dict[tuple[str, str], Object]] = field(init=False, default_factory=dict)
    _owned: dict[str, list[Object]] = field(init=False, default_factory=dict)
    _alike: dict[str, list[list[Object]]] = field(init=False, default_factory=dict)
    _events: dict[tuple[str, str, str], list[Object]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        for each in self.objects:
            self._by_kind.setdefault(str(each.get("kind")), {})[namespace_of(each), name_of(each)] = each
        for kind, found in self._by_kind.items():
            if kind == "Event":
                for event in found.values():
                    about = event.get("involvedObject") or {}
                    key = (str(about.get("kind")), str(about.get("namespace") or ""), str(about.get("name")))
                    self._events.setdefault(key, []).append(event)
                continue
            for each in found.values():
                owner = controller_of(each)
                if owner is not None:
                    self._owned.setdefault(str(owner.get("uid")), []).append(each)

    def all(self, kind: str, namespace: str = EVERYWHERE) -> list[Object]:
        found = self._by_kind.get(kind, {})
        return [each for (where, _), each in found.items() if namespace in (EVERYWHERE, where)]

    def pods_by_labels(self, namespace: str) -> list[list[Object]]:
        """The pods of a namespace, those with equal labels together: many are alike, and selectors ask about labels only."""
        held = self._alike.get(namespace)
        if held is None:
            groups: dict[frozenset[tuple[str, str]], list[Object]] = {}
            for pod in self.all("Pod", namespace):
                groups.setdefault(frozenset(labels_of(pod).items()), []).append(pod)
            held = self._alike[namespace] = list(groups.values())
        return held

    def get(self, kind: str, name: str, namespace: str = "") -> Object | None:
        return self._by_kind.get(kind, {}).get((namespace, name))

    def covers(self, kind: str, namespace: str = EVERYWHERE) -> bool:
        """Whether everything of the kind is here, in that namespace or everywhere."""
        return Scope(kind) in self.whole or Scope(kind, namespace) in self.whole

    def is_missing(self, kind: str, name: str, namespace: str = "") -> bool:
        """Known not to exist; False also where nobody could look."""
        return self.get(kind, name, namespace) is None and self.covers(kind, namespace)

    def owned(self, owner: Object, kind: str) -> list[Object]:
        """What an object controls, the oldest first."""
        uid = uid_of(owner)
        found = [each for each in self._owned.get(uid, ()) if each.get("kind") == kind] if uid else []
        return sorted(found, key=lambda each: (str((each.get("metadata") or {}).get("creationTimestamp") or ""), name_of(each)))

    def events(self, obj: Object, *reasons: str) -> list[Object]:
        """About an object, and of these reasons if any are given, the latest first."""
        namespace = namespace_of(obj)
        found = self._events.get((str(obj.get("kind")), namespace, name_of(obj)), ())
        uid = uid_of(obj)
        fitting = [
            each
            for each in found
            if (not reasons or each.get("reason") in reasons)
            and (not uid or (each.get("involvedObject") or {}).get("uid") in (uid, name_of(obj), None, ""))
        ]
        return sorted(fitting, key=event_time, reverse=True)


def event_time(event: Object) -> datetime:
    """When an event was last seen, by whichever of its fields tells."""
    series = event.get("series") or {}
    metadata = event.get("metadata") or {}
    for text in (
        series.get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        metadata.get("creationTimestamp"),
    ):
        when = moment(text)
        if when is not None:
            return when
    return datetime.fromtimestamp(0, UTC)


def moment(text: Any) -> datetime | None:
    """A time of the API; None for none, and for what is no time."""
    if not text or not isinstance(text, str):
        return None
    try:
        return parse_time(text)
    except ValueError:
        return None
