"""device_taint_eviction: deletes pods whose devices got ``NoExecute`` taints that their claims do not tolerate (KEP-5055).

Drivers write taints into ResourceSlices, people make DeviceTaintRules; the tolerations that count are those noted in the
allocation. Rules are told in their status what they do.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from apimachinery.errors import StatusError
from apimachinery.meta import (
    Object,
    clone,
    generation,
    get_condition,
    is_deleting,
    key_of,
    name_of,
    namespace_of,
    set_condition,
    uid_of,
)
from apimachinery.objects import claims, device_taints, pods
from apimachinery.resources import DEVICE_TAINT_RULES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from apimachinery.times import format_time, parse_time
from client.informer import Informer
from client.rest import APPLY
from client.served import serves
from component import logs
from controlplane.controllers import device_taint_rules
from controlplane.controllers.controller import Environment, Loop
from controlplane.controllers.device_taint_rules import EVICTION, PERIOD_SECONDS, Reach

_BY_POOL = "pool-of-devices"
_log = logs.get(__name__)
_TEXT = "Device Taint manager: deleting due to NoExecute taint"


class DeviceTaintEvictionController:
    """One loop over allocated claims; the pods that have reserved a claim go together. Another over rules, for their status.

    ``with_rules``: the gate DRADeviceTaintRules.
    """

    name = "device-taint-eviction-controller"

    def __init__(self, env: Environment, workers: int = 8, *, with_rules: bool = False) -> None:
        self._client, self._clock, self._informers = env.client, env.clock, env.informers
        self._recorder = env.recorders(self.name)
        self._pods = env.watch(PODS)
        self._claims, self._slices = env.watch(RESOURCE_CLAIMS), env.watch(RESOURCE_SLICES)
        self._claims.add_index(_BY_POOL, _pools_of_claim)
        self._slices.add_index(_BY_POOL, _pool_of_slice)
        self._first_seen: dict[str, datetime] = {}  # of claims under taints without a time
        self._with_rules = with_rules
        self._rules: Informer | None = None
        self._evicted: Counter[str] = Counter()  # pods that went, by the uid of a rule
        self._loop = Loop(self.name, self.reconcile, env, workers)
        self._rules_loop = Loop(f"{self.name}-rules", self.tell_rule, env, workers=1)
        self._claims.add_handler(on_add=self._claim_changed, on_update=self._claim_updated, on_delete=self._claim_gone)
        self._slices.add_handler(on_add=self._slice_changed, on_update=lambda old, new: self._slice_changed(new))

    async def run(self) -> None:
        if not self._with_rules:
            await self._loop.run()
        elif not await serves(self._client, DEVICE_TAINT_RULES):
            _log.warning("The server does not have DeviceTaintRules, though their gate is on")
            await self._loop.run()
        else:
            self._rules = self._informers.informer(DEVICE_TAINT_RULES)
            self._rules.add_handler(on_add=self._rule_changed, on_update=self._rule_updated, on_delete=self._rule_gone)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._loop.run(), name=self.name)
                group.create_task(self._rules_loop.run(), name=f"{self.name}-rules")

    def _rule_changed(self, rule: Object) -> None:
        self._rules_loop.add_object(rule)
        for claim in self._claims.lister.list():
            if any(device_taints.selects(rule, *claims.pool_key(result)) for result in claims.results_of(claim)):
                self._claim_changed(claim)

    def _rule_updated(self, old: Object, new: Object) -> None:
        if generation(old) != generation(new):
            self._rule_changed(old)
            self._rule_changed(new)

    def _rule_gone(self, rule: Object) -> None:
        self._evicted.pop(uid_of(rule), None)
        self._rule_changed(rule)

    def _rules_now(self) -> Sequence[Object]:
        return self._rules.lister.list() if self._rules is not None else ()

    def _claim_changed(self, claim: Object) -> None:
        if claims.consumers_of(claim):
            self._loop.add_object(claim)
            self._tell_rules_of(claim)

    def _tell_rules_of(self, claim: Object) -> None:
        for rule in self._rules_now():
            if any(device_taints.selects(rule, *claims.pool_key(result)) for result in claims.results_of(claim)):
                self._rules_loop.add_object(rule)

    def _claim_updated(self, old: Object, new: Object) -> None:
        if not claims.consumers_of(new) and claims.consumers_of(old):  # nobody is left who would have to go
            self._tell_rules_of(old)
        self._claim_changed(new)

    def _claim_gone(self, claim: Object) -> None:
        self._first_seen.pop(uid_of(claim), None)
        self._tell_rules_of(claim)

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
        rules = self._rules_now()
        newest = [each for pool in _pools_of_claim(claim) for each in self._newest(pool)]
        moment = eviction_time(claim, newest, first, rules)
        if moment is None:
            del self._first_seen[uid_of(claim)]
            return None
        if moment > now:
            return (moment - now).total_seconds() + 0.05
        for pod in self._users(claim):
            await self._evict(pod)
            for rule in rules:
                if _evicts_now(rule, claim):
                    self._evicted[uid_of(rule)] += 1
                    self._rules_loop.add_after(key_of(rule), PERIOD_SECONDS)
        return None

    def _users(self, claim: Object) -> list[Object]:
        """The pods that use the claim and are not on their way out."""
        found = []
        for consumer in claims.consumers_of(claim):
            pod = self._pods.lister.get(consumer.get("name", ""), namespace_of(claim))
            if pod is not None and uid_of(pod) == consumer.get("uid") and not is_deleting(pod) and not pods.is_terminal(pod):
                found.append(pod)
        return found

    async def tell_rule(self, key: str) -> float | None:
        """Bring the status of a rule up to date, not too often."""
        rule = self._rules.lister.get_key(key) if self._rules is not None else None
        if rule is None:
            return None
        held, now = get_condition(rule, EVICTION), self._clock.now()
        if held is not None and held.get("observedGeneration") == generation(rule):
            left = PERIOD_SECONDS - (now - parse_time(held["lastTransitionTime"])).total_seconds()
            if left > 0:
                return left
        wanted = device_taint_rules.condition(rule, self._reach(rule), self._evicted[uid_of(rule)])
        if device_taint_rules.is_told(rule, wanted):
            return None
        body = {
            "apiVersion": DEVICE_TAINT_RULES.api_version,
            "kind": "DeviceTaintRule",
            "metadata": {"name": name_of(rule), "uid": uid_of(rule)},
            "status": {"conditions": [{**wanted, "lastTransitionTime": format_time(now)}]},
        }
        name = name_of(rule)
        await self._client.patch(DEVICE_TAINT_RULES, name, body, APPLY, subresource="status", field_manager=self.name, force=True)
        return None

    def _reach(self, rule: Object) -> Reach:
        if rule["spec"]["taint"].get("effect") not in (device_taints.NO_EXECUTE, device_taints.NONE):
            return Reach()  # nothing is told of it, and counting may be dear
        pools = {pool for each in self._slices.lister.list() for pool in _pool_of_slice(each)}
        newest = (each for pool in pools for each in self._newest(pool))
        return device_taint_rules.reach(rule, newest, ((claim, self._users(claim)) for claim in self._claims.lister.list()))

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


def _evicts_now(rule: Object, claim: Object) -> bool:
    selected = (result for result in claims.results_of(claim) if device_taints.selects(rule, *claims.pool_key(result)))
    of_effect = rule["spec"]["taint"].get("effect") == device_taints.NO_EXECUTE
    return of_effect and any(device_taint_rules.evicts(rule, result) for result in selected)


def eviction_time(claim: Object, slices: Iterable[Object], first_seen: datetime, rules: Sequence[Object] = ()) -> datetime | None:
    """When the pods that use the claim must go, or None. Tolerated seconds count from when a taint was added. Pure."""
    tainted = {
        (each["spec"].get("driver"), (each["spec"].get("pool") or {}).get("name"), device.get("name")): device["taints"]
        for each in slices
        for device in each["spec"].get("devices") or ()
        if device.get("taints")
    }
    moments = []
    for result in claims.results_of(claim):
        where = claims.pool_key(result)
        # rules reach allocated devices that nobody publishes any more, too
        for taint in (*tainted.get(where, ()), *device_taints.taints_of(rules, *where)):
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
