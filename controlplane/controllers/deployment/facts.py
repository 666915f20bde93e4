"""What one reconciliation of a Deployment knows, and the small questions its rules ask of it. Pure.

Built by ``controller`` from caches; read by ``rollout`` (sizes), ``revisions`` (history) and ``status``.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from apimachinery import intstr
from apimachinery.meta import Object, creation_time, name_of

REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"

NO_LIMIT = 2**31 - 1

Deployment = Mapping[str, Any]


def wanted(obj: Mapping[str, Any]) -> int:
    """``spec.replicas`` of a Deployment or ReplicaSet."""
    number = (obj.get("spec") or {}).get("replicas")
    return 1 if number is None else int(number)


def reported(obj: Mapping[str, Any], field: str) -> int:
    """A count in ``status``; absent is 0."""
    return int((obj.get("status") or {}).get(field) or 0)


def total(sets: Iterable[Object]) -> int:
    return sum(wanted(each) for each in sets)


def total_reported(sets: Iterable[Object], field: str) -> int:
    return sum(reported(each, field) for each in sets)


def active(sets: Iterable[Object]) -> list[Object]:
    """Those that want any pods."""
    return [each for each in sets if wanted(each) > 0]


def oldest_first(sets: Iterable[Object]) -> list[Object]:
    return sorted(sets, key=age_key)


def age_key(obj: Object) -> tuple[float, str]:
    created = creation_time(obj)
    return (created.timestamp() if created else math.inf, name_of(obj))


def strategy(deployment: Deployment) -> str:
    return str(((deployment.get("spec") or {}).get("strategy") or {}).get("type") or "RollingUpdate")


def is_paused(deployment: Deployment) -> bool:
    return bool((deployment.get("spec") or {}).get("paused"))


def fence(deployment: Deployment) -> tuple[int, int]:
    """(maxSurge, maxUnavailable) in pods: surge rounded up, unavailability down, and never both zero."""
    replicas = wanted(deployment)
    rolling = ((deployment.get("spec") or {}).get("strategy") or {}).get("rollingUpdate") or {}
    surge = intstr.scaled(_given(rolling.get("maxSurge")), replicas, round_up=True)
    unavailable = intstr.scaled(_given(rolling.get("maxUnavailable")), replicas, round_up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return surge, unavailable


def _given(value: int | str | None) -> int | str:
    return "25%" if value is None else value


def max_surge(deployment: Deployment) -> int:
    return fence(deployment)[0] if strategy(deployment) == "RollingUpdate" else 0


def max_unavailable(deployment: Deployment) -> int:
    if strategy(deployment) != "RollingUpdate" or wanted(deployment) == 0:
        return 0
    return min(fence(deployment)[1], wanted(deployment))


def progress_deadline(deployment: Deployment) -> int | None:
    seconds = (deployment.get("spec") or {}).get("progressDeadlineSeconds")
    return None if seconds is None or seconds == NO_LIMIT else int(seconds)


def others(sets: Sequence[Object], new: Object | None) -> list[Object]:
    """All sets but the new one."""
    return [each for each in sets if new is None or each["metadata"].get("uid") != new["metadata"].get("uid")]
