"""PodDisruptionBudgets as policy/v1beta1, where an empty selector chooses no pod; in v1 it chooses every one.

The two selectors that say so in the other version's words are upstream's, so that what one wrote the other reads.
"""

from typing import Any

from controlplane.apiserver.kinds.shared.versions import VersionView
from controlplane.apiserver.registry.strategy import Object

_LABEL = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"


def _mark(operator: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": _LABEL, "operator": operator}]}


_NOTHING_IN_V1 = _mark("Exists")
_EVERYTHING_IN_V1BETA1 = _mark("DoesNotExist")


class PodDisruptionBudgetV1beta1Strategy(VersionView):
    def to_stored(self, obj: Object) -> Object:
        return _with(super().to_stored(obj), {}, _NOTHING_IN_V1, _EVERYTHING_IN_V1BETA1)

    def from_stored(self, obj: Object) -> Object:
        return _with(super().from_stored(obj), {}, _EVERYTHING_IN_V1BETA1, _NOTHING_IN_V1)


def _with(obj: Object, empty: Object, for_empty: Object, becomes_empty: Object) -> Object:
    """Exchange the selector, if it is one of the two that mean something else in the other version."""
    spec = obj.get("spec") or {}
    selector = spec.get("selector")
    if selector is None or (selector and selector != becomes_empty):
        return obj
    wanted = empty if selector else for_empty
    return {**obj, "spec": {**spec, "selector": {key: list(value) for key, value in wanted.items()}}}
