"""The part of ``quota`` about ResourceClaims: how many devices of each class one may be given at most.

Upstream's ``pkg/quota/v1/evaluator/core/resource_claims.go``: quotas name them ``CLASS.deviceclass.resource.k8s.io/devices``.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from apimachinery.quantity import Quantity, of

Object = Mapping[str, Any]
RESOURCE = "resourceclaims.resource.k8s.io"
SUFFIX = ".deviceclass.resource.k8s.io/devices"
MOST_DEVICES = 32  # that one claim can be given (``AllocationResultsMaxSize``): what "all of them" costs


def usage(claim: Object) -> dict[str, Quantity]:
    """Of requests with alternatives the dearest of each class counts: any of them may be what is given."""
    devices: dict[str, int] = {}
    for request in (((claim.get("spec") or {}).get("devices") or {}).get("requests")) or ():
        for name, count in _worst(request.get("firstAvailable") or [request.get("exactly") or request]):
            devices[name] = devices.get(name, 0) + count
    return {name + SUFFIX: of(count) for name, count in devices.items()}


def _worst(choices: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, int]]:
    found: dict[str, int] = {}
    for choice in choices:
        name, mode = choice.get("deviceClassName"), choice.get("allocationMode") or "ExactCount"
        if name and mode in ("ExactCount", "All"):
            count = MOST_DEVICES if mode == "All" else int(choice.get("count") or 1)
            found[name] = max(found.get(name, 0), count)
    return found.items()
