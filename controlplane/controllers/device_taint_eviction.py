"""device_taint_eviction: deletes pods whose devices got ``NoExecute`` taints that their claims do not tolerate (KEP-5055).

Drivers write taints into ResourceSlices; the tolerations that count are those noted in the allocation.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from apimachinery.errors import StatusError
from apimachinery.meta import Object, clone, is_deleting, name_of, namespace_of, set_condition, uid_of
from apimachinery.objects import claims, device_taints, pods
from apimachinery.resources import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from apimachinery.times import parse_time
from controlplane.controllers.controller import Environment, Loop

_BY_POOL = "pool-of-devices"
_TEXT = "Device Taint manager: deleting due to NoExecute taint"


class DeviceTaintEvictionController:
    """One loop over allocated claims; the pods that have reserved a claim go together."""

    name = "device-taint-eviction-controller"

    def __init__(self, env: Environment, workers: int = 8) -> None:
        self._client, self._clock = env.client, env.clock
        self._recorder = env.recorders(self.name)
        self._pods = env.watch(PODS)
        self._claims, self._slices = env.watch(RESOURCE_CLAIMS), env.watch(RESOURCE_SLICES)
        self._claims.add_index(_BY_POOL, _pools_of_claim)
        self._slices.add_index(_BY_POOL, _pool_of_slice)
        self._first_seen: dict[str, datetime] = {}  # of claims under taints without a time
        self._loop = Loop(self.name, self.reconcile, env, workers)
        self._claims.add_handler(
            on_add=self._claim_changed, on_update=lambda old, new: self._claim_changed(new), on_delete=self._claim_gone
        )
        self._slices.add_handler(on_add=self._slice_changed, on_update=lambda old, new: self._slice_changed(new))

    async def run(self) -> None:
        await self._loop.run()

    def _claim_changed(self, claim: Object) -> None:
        if claims.consumers_of(claim):
            self._loop.add_object(claim)

    def _claim_gone(self, claim: Object) -> None:
        self._first_seen.pop(uid_of(claim), None)

    def _slice_changed(self, changed: Object) -> None:
        if any(device.get("taints") for device in (changed.get("spec") or {}).get("devices") or ()):
            for pool in _pool_of_slice(changed):
                for claim in self._claims.lister.by_index(_BY_POOL, pool):
                    self._claim_changed(claim)

    async def reconcile(self, key: str) -> float | None:
        claim = self._claims.lister.get_key(key)
        if claim is None or not claims.consumers_of(claim):
            return None
        now = self._clock.now()
        first = self._first_seen.setdefault(uid_of(claim), now)
        moment = eviction_time(claim, [each for pool in _pools_of_claim(claim) for each in self._newest(pool)], first)
        if moment is None:
            del self._first_seen[uid_of(claim)]
            return None
        if moment > now:
            return (moment - now).total_seconds() + 0.05
        for consumer in claims.consumers_of(claim):
            pod = self._pods.lister.get(consumer.get("name", ""), namespace_of(claim))
            if pod is not None and uid_of(pod) == consumer.get("uid") and not is_deleting(pod) and not pods.is_terminal(pod):
                await self._evict(pod)
        return None

    def _newest(self, pool: str) -> list[Object]:
        found = list(self._slices.lister.by_index(_BY_POOL, pool))
        newest = max((_generation(each) for each in found), default=0)
        return [each for each in found if _generation(each) == newest]

    async def _evict(self, pod: Object) -> None:
        self._recorder.event(pod, "Normal", "DeviceTaintManagerEviction", "Marking for deletion")
        changed, now = clone(pod), self._clock.now()
        set_condition(changed, "DisruptionTarget", "True", now=now, reason="DeletionByDeviceTaintManager", message=_TEXT)
        try:
            await self._client.update_status(PODS, changed)
            await self._client.delete(PODS, name_of(pod), namespace_of(pod), preconditions={"uid": uid_of(pod)})
        except StatusError as error:
            if error.code != 404:
                raise


def eviction_time(claim: Object, slices: Iterable[Object], first_seen: datetime) -> datetime | None:
    """When the pods that use the claim must go, or None. Tolerated seconds count from when a taint was added. Pure."""
    tainted = {
        (each["spec"].get("driver"), (each["spec"].get("pool") or {}).get("name"), device.get("name")): device["taints"]
        for each in slices
        for device in each["spec"].get("devices") or ()
        if device.get("taints")
    }
    moments = []
    for result in claims.results_of(claim):
        for taint in tainted.get(claims.pool_key(result), ()):
            if taint.get("effect") != device_taints.NO_EXECUTE:
                continue
            delay = device_taints.tolerated_seconds(result.get("tolerations") or (), taint)
            if delay is not None:
                since = parse_time(taint["timeAdded"]) if taint.get("timeAdded") else first_seen
                moments.append(since + timedelta(seconds=delay))
    return min(moments, default=None)


def _pools_of_claim(claim: Object) -> list[str]:
    return sorted({f"{result.get('driver')}/{result.get('pool')}" for result in claims.results_of(claim)})


def _pool_of_slice(each: Object) -> list[str]:
    spec = each.get("spec") or {}
    return [f"{spec.get('driver')}/{(spec.get('pool') or {}).get('name')}"]


def _generation(each: Object) -> int:
    return int((each["spec"].get("pool") or {}).get("generation") or 0)
