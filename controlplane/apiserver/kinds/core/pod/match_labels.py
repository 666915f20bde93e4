"""Puts ``matchLabelKeys`` and ``mismatchLabelKeys`` of a new pod into the selectors beside them (KEP-3633, KEP-3243).

Called when a pod is created, after admission: a key stands for the value that the pod itself has, so that pods of one rollout
look for pods of the same rollout. The keys stay; who reads a pod needs only its selectors.
"""

from collections.abc import Iterable, Iterator
from typing import Any

Object = dict[str, Any]

_REQUIRED, _PREFERRED = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"


def apply_match_label_keys(pod: Object) -> None:
    """Changes the pod in place."""
    spec = pod["spec"]
    if not spec.get("affinity") and not spec.get("topologySpreadConstraints"):
        return
    labels = pod["metadata"].get("labels") or {}
    for term in _terms(spec):
        if term.get("labelSelector") is not None:  # without one it matches nothing, and still does
            _select(term, term.get("matchLabelKeys") or (), "In", labels)
            _select(term, term.get("mismatchLabelKeys") or (), "NotIn", labels)


def _terms(spec: Object) -> Iterator[Object]:
    for part in ("podAffinity", "podAntiAffinity"):
        affinity = (spec.get("affinity") or {}).get(part) or {}
        yield from affinity.get(_REQUIRED) or ()
        yield from (entry.get("podAffinityTerm") or {} for entry in affinity.get(_PREFERRED) or ())
    yield from spec.get("topologySpreadConstraints") or ()


def _select(term: Object, keys: Iterable[str], operator: str, labels: Object) -> None:
    wanted = [{"key": key, "operator": operator, "values": [labels[key]]} for key in keys if key in labels]
    if wanted:
        selector = term["labelSelector"]
        selector["matchExpressions"] = [*(selector.get("matchExpressions") or ()), *wanted]
