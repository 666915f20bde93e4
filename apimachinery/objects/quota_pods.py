"""The pods' part of ``quota``: requests and limits, scopes, and what every container must say."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from apimachinery import labels
from apimachinery.objects.pods import is_sidecar, is_terminal
from apimachinery.objects.qos import BEST_EFFORT, compute
from apimachinery.quantity import Quantity, of, parse
from apimachinery.times import parse_time

Object = Mapping[str, Any]
Amounts = dict[str, Quantity]

_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_MUST_BE_SAID = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})
_NAMES = frozenset({"pods", *_COMPUTE, *(f"{part}.{name}" for part in ("requests", "limits") for name in _COMPUTE)})
_HUGE = ("hugepages-", "requests.hugepages-")
_REQUESTS = "requests."


def concerns(name: str) -> bool:
    return name in _NAMES or name.startswith(_HUGE) or (name.startswith(_REQUESTS) and _is_extended(name.removeprefix(_REQUESTS)))


def _is_extended(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name


def usage(pod: Object, now: datetime) -> Amounts:
    """Finished pods, and those that should have been gone by now, only count as objects."""
    cost: Amounts = {"count/pods": of(1)}
    if not is_terminal(pod) and not _overdue(pod, now):
        cost["pods"] = of(1)
        cost.update(named(effective(pod, "requests"), effective(pod, "limits")))
    return cost


def _overdue(pod: Object, now: datetime) -> bool:
    meta = pod.get("metadata") or {}
    if not meta.get("deletionTimestamp") or meta.get("deletionGracePeriodSeconds") is None:
        return False
    return now > parse_time(meta["deletionTimestamp"]) + timedelta(seconds=meta["deletionGracePeriodSeconds"])


def named(requests: Mapping[str, Quantity], limits: Mapping[str, Quantity]) -> Amounts:
    """By the names that quotas use."""
    cost: Amounts = {}
    for name, amount in requests.items():
        if name in _COMPUTE or name.startswith("hugepages-"):
            cost[name] = amount
            cost[_REQUESTS + name] = amount
        elif _is_extended(name):
            cost[_REQUESTS + name] = amount
    cost.update({f"limits.{name}": amount for name, amount in limits.items() if name in _COMPUTE})
    return cost


def effective(pod: Object, part: str) -> Amounts:
    """As ``objects.requests`` sums them, but exact and in the suffixes they were written in."""
    spec = pod.get("spec") or {}
    total: Amounts = {}
    for container in spec.get("containers") or ():
        _add(total, _listed(container, part))
    sidecars: Amounts = {}
    highest: Amounts = {}
    for container in spec.get("initContainers") or ():
        wanted = _listed(container, part)
        if is_sidecar(container):
            _add(total, wanted)
            _add(sidecars, wanted)
            wanted = dict(sidecars)
        else:
            _add(wanted, sidecars)
        _raise(highest, wanted)
    _raise(total, highest)
    total.update(_listed(spec, part))
    overhead = {name: parse(text) for name, text in (spec.get("overhead") or {}).items()}
    _add(total, overhead if part == "requests" else {name: more for name, more in overhead.items() if name in total})
    return total


def _listed(holder: Mapping[str, Any], part: str) -> Amounts:
    return {name: parse(text) for name, text in ((holder.get("resources") or {}).get(part) or {}).items()}


def _add(total: Amounts, more: Mapping[str, Quantity]) -> None:
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def _raise(total: Amounts, other: Mapping[str, Quantity]) -> None:
    for name, amount in other.items():
        if name not in total or total[name] < amount:
            total[name] = amount


def unsaid(required: Iterable[str], pod: Object) -> str:
    """Under a quota for CPU or memory every container must ask for some: the sentence that says which do not, or nothing."""
    spec = pod.get("spec") or {}
    if any((spec.get("resources") or {}).values()):
        return ""
    needed = sorted(_MUST_BE_SAID.intersection(required))
    missing: dict[str, list[str]] = {}
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        said = named(_listed(container, "requests"), _listed(container, "limits"))
        for name in needed:
            if name not in said:
                missing.setdefault(name, []).append(container.get("name", ""))
    parts = [f"{name} for: {','.join(sorted(containers))}" for name, containers in missing.items()]
    return f"must specify {'; '.join(parts)}" if parts else ""


def within(selector: Mapping[str, Any], pod: Object) -> bool:
    scope = selector.get("scopeName")
    spec = pod.get("spec") or {}
    deadline = spec.get("activeDeadlineSeconds")
    if scope == "Terminating":
        return deadline is not None and deadline >= 0
    if scope == "NotTerminating":
        return deadline is None or deadline < 0
    if scope == "BestEffort":
        return compute(pod) == BEST_EFFORT
    if scope == "NotBestEffort":
        return compute(pod) != BEST_EFFORT
    if scope == "PriorityClass":
        return chosen(selector, spec.get("priorityClassName") or "")
    if scope == "CrossNamespacePodAffinity":
        return _crosses_namespaces(spec.get("affinity") or {})
    return False


def _crosses_namespaces(affinity: Mapping[str, Any]) -> bool:
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        terms = list(rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        weighted = rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [each.get("podAffinityTerm") or {} for each in weighted]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False


def chosen(selector: Mapping[str, Any], value: str) -> bool:
    """Whether a scope selector takes an object whose class is ``value`` (empty for none)."""
    if selector.get("operator") == "Exists":
        return bool(value)
    expression = {
        "key": selector.get("scopeName", ""),
        "operator": selector.get("operator", ""),
        "values": selector.get("values") or [],
    }
    matcher = labels.from_label_selector({"matchExpressions": [expression]})
    return bool(matcher.matches({expression["key"]: value} if value else {}))
