"""resourcepoolstatusrequest: answers how many devices of a driver are left, by pool (KEP-5677). Behind DRAResourcePoolStatus.

A request is answered once, and deleted an hour later; one that cannot be answered, for slices of a pool are missing, waits for
them for a day.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersionResource
from apimachinery.meta import Object, clone, creation_time, get_condition, is_deleting, uid_of
from apimachinery.objects import claims
from apimachinery.resources import RESOURCE_CLAIMS, RESOURCE_SLICES
from apimachinery.times import format_time, parse_time
from client.rest import is_not_found
from controlplane.controllers.controller import Environment, Loop

REQUESTS = GroupVersionResource("resource.k8s.io", "v1alpha3", "resourcepoolstatusrequests")
_ANSWERED, _WAITING = timedelta(hours=1), timedelta(days=1)
_LIMIT = 100
_LONGEST = 256  # bytes of a validation error


def pools_of(request: Object, slices: Iterable[Object], allocated: Iterable[Object]) -> list[Object]:
    """The pools that the request asks for, by name. A pool of which slices are missing has a ``validationError``."""
    spec, found = request["spec"], dict[str, list[Object]]()
    for each in slices:
        pool = str((each["spec"].get("pool") or {}).get("name") or "")
        if each["spec"].get("driver") == spec["driver"] and spec.get("poolName") in (None, "", pool):
            found.setdefault(pool, []).append(each)
    taken = Counter(claims.pool_key(result)[:2] for claim in allocated for result in claims.results_of(claim))
    return [_pool(spec["driver"], name, found[name], taken[spec["driver"], name]) for name in sorted(found)]


def _pool(driver: str, name: str, slices: Sequence[Object], taken: int) -> Object:
    generation = max(_generation(each) for each in slices)
    newest = [each for each in slices if _generation(each) == generation]
    pool: Object = {"driver": driver, "poolName": name, "generation": generation}
    nodes = {each["spec"].get("nodeName") or "" for each in newest}
    if len(nodes) == 1 and (node := nodes.pop()):
        pool["nodeName"] = node
    expected = int(newest[0]["spec"]["pool"].get("resourceSliceCount") or 0)
    if len(newest) < expected:
        text = f"pool {driver}/{name} is incomplete: observed {len(newest)}/{expected} slices at generation {generation}"
        pool["validationError"] = text.encode()[:_LONGEST].decode(errors="ignore")
        return pool
    total = sum(len(each["spec"].get("devices") or ()) for each in newest)
    counts = {"totalDevices": total, "allocatedDevices": taken, "availableDevices": max(0, total - taken)}
    return {**pool, "resourceSliceCount": len(newest), **counts, "unavailableDevices": 0}


def _generation(each: Object) -> int:
    return int((each["spec"].get("pool") or {}).get("generation") or 0)


def status_of(request: Object, pools: Sequence[Object], now: datetime) -> Object:
    """The answer, cut to the request's limit; ``poolCount`` tells how many there are."""
    limit = request["spec"].get("limit")
    shown = list(pools[: _LIMIT if limit is None else limit])
    condition = {
        "type": "Complete",
        "status": "True",
        "lastTransitionTime": format_time(now),
        "reason": "CalculationComplete",
        "message": f"Calculated status for {len(shown)} pools",
    }
    status: Object = {"poolCount": len(pools), "conditions": [condition]}
    return {**status, "pools": shown} if shown else status


def expiry(request: Object) -> datetime | None:
    """When the request is to go."""
    made = creation_time(request)
    if request.get("status"):
        over = get_condition(request, "Complete") or get_condition(request, "Failed") or {}
        since = parse_time(over["lastTransitionTime"]) if over.get("lastTransitionTime") else made
        return since + _ANSWERED if since is not None else None
    return made + _WAITING if made is not None else None


class ResourcePoolStatusRequestController:
    """One loop over requests; those that wait are woken by the slices of their driver."""

    name = "resourcepoolstatusrequest-controller"

    def __init__(self, env: Environment) -> None:
        self._client, self._clock = env.client, env.clock
        self._requests = env.watch(REQUESTS)
        self._slices, self._claims = env.watch(RESOURCE_SLICES), env.watch(RESOURCE_CLAIMS)
        self._loop = Loop(self.name, self.reconcile, env, workers=1)
        self._requests.add_handler(on_add=self._loop.add_object, on_update=lambda old, new: self._loop.add_object(new))
        self._slices.add_handler(on_add=self._slice, on_update=lambda old, new: self._slice(new), on_delete=self._slice)

    async def run(self) -> None:
        await self._loop.run()

    def _slice(self, changed: Object) -> None:
        for request in self._requests.lister.list():
            if not request.get("status") and request["spec"].get("driver") == changed["spec"].get("driver"):
                self._loop.add_object(request)

    async def reconcile(self, key: str) -> float | None:
        request = self._requests.lister.get_key(key)
        if request is None or is_deleting(request):
            return None
        now, end = self._clock.now(), expiry(request)
        if end is not None and end <= now:
            await self._delete(request, key)
            return None
        if not request.get("status"):
            pools = pools_of(request, self._slices.lister.list(), self._claims.lister.list())
            if not any("validationError" in pool for pool in pools):
                changed: dict[str, Any] = clone(request)
                changed["status"] = status_of(request, pools, now)
                await self._client.update_status(REQUESTS, changed)
                return _ANSWERED.total_seconds()
        return (end - now).total_seconds() if end is not None else None

    async def _delete(self, request: Object, name: str) -> None:
        try:
            await self._client.delete(REQUESTS, name, preconditions={"uid": uid_of(request)})
        except StatusError as error:
            if not is_not_found(error):
                raise
