"""Which pods count, and what they ask for: upstream's ``groupPods`` and ``calculateRequests``. Pure; ``evaluation`` calls it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from apimachinery import quantity
from apimachinery.meta import Object, is_deleting, name_of
from apimachinery.objects import pods
from apimachinery.objects.requests import CPU, pod_requests
from apimachinery.times import parse_time

_POD_LEVEL = ("cpu", "memory")
_HUGE_PAGES = "hugepages-"


@dataclass(frozen=True, slots=True)
class Sample:
    """One pod's figure in thousandths, measured over ``window`` up to ``at``."""

    value: int
    at: datetime
    window: timedelta


@dataclass(frozen=True, slots=True)
class Patience:
    """``--horizontal-pod-autoscaler-cpu-initialization-period`` and ``-initial-readiness-delay``."""

    initialization: timedelta = timedelta(minutes=5)
    readiness: timedelta = timedelta(seconds=30)


@dataclass(slots=True)
class Groups:
    """Pods' names by what can be said of them; ``ready`` is a number, for nobody asks for their names."""

    ready: int = 0
    unready: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)
    ignored: set[str] = field(default_factory=set)


def grouped(listed: Iterable[Object], samples: Mapping[str, Sample], resource: str, patience: Patience, now: datetime) -> Groups:
    """``resource`` is empty for what is no resource. Only CPU is not believed while a pod starts."""
    found = Groups()
    for pod in listed:
        name, phase = name_of(pod), pods.phase(pod)
        sample = samples.get(name)
        if is_deleting(pod) or phase == "Failed":
            found.ignored.add(name)
        elif phase == "Pending":
            found.unready.add(name)
        elif sample is None:
            found.missing.add(name)
        elif resource == CPU and _starting(pod, sample, patience, now):
            found.unready.add(name)
        else:
            found.ready += 1
    return found


def _starting(pod: Object, sample: Sample, patience: Patience, now: datetime) -> bool:
    condition = pods.ready_condition(pod)
    started_at = (pod.get("status") or {}).get("startTime")
    if condition is None or not started_at:
        return True
    started, changed = parse_time(started_at), _changed(condition)
    unready = condition.get("status") == "False"
    if started + patience.initialization > now:
        # a pod may become ready and burn CPU for long: its figure counts once a whole window lies after the change
        return unready or (changed is not None and sample.at < changed + sample.window)
    # it has been unready from the beginning: it never was ready
    return unready and (changed is None or started + patience.readiness > changed)


def _changed(condition: Mapping[str, Any]) -> datetime | None:
    text = condition.get("lastTransitionTime")
    return parse_time(text) if text else None


def requests(listed: Sequence[Object], resource: str, container: str = "", *, pod_level: bool = True) -> dict[str, int]:
    """Pod to its request in thousandths: of one container, or of the whole pod.

    :raises ValueError: a container that counts asks for nothing, or is not there.
    """
    return {name_of(pod): _request(pod, resource, container, pod_level) for pod in listed}


def _request(pod: Object, resource: str, container: str, pod_level: bool) -> int:
    if pod_level and not container and _sets_requests(pod):
        effective = pod_requests(pod)
        if resource not in effective:
            raise ValueError(f"missing pod-level request for {resource} in Pod {name_of(pod)}")
        return effective[resource] * (1 if resource == CPU else 1000)
    total = 0
    for each in (*pods.containers(pod), *pods.sidecars(pod)):
        if container and each.get("name") != container:
            continue
        asked = ((each.get("resources") or {}).get("requests") or {}).get(resource)
        if asked is None:
            raise ValueError(f"missing request for {resource} in container {each.get('name')} of Pod {name_of(pod)}")
        total += quantity.parse(asked).milli()
        if container:
            return total
    if container:
        raise ValueError(f"container {container} not found in Pod {name_of(pod)}")
    return total


def _sets_requests(pod: Object) -> bool:
    asked = ((pod.get("spec") or {}).get("resources") or {}).get("requests") or {}
    return any(name in _POD_LEVEL or name.startswith(_HUGE_PAGES) for name in asked)
