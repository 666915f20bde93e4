"""The objects of resource.k8s.io for DynamicResources: informers below, the scheduler's own promises above.

Made by ``scheduler``; fulfils ``framework.devices.Devices``. What claims have is counted as they change; pools are put together
anew only after a slice has changed.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping

from apimachinery.errors import StatusError
from apimachinery.meta import Object, annotation, clone, key_of, make_key, name_of, namespace_of, remove_finalizer, uid_of
from apimachinery.objects import claims, device_taints
from apimachinery.resources import DEVICE_CLASSES, DEVICE_TAINT_RULES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from client.assumed import Assumed
from client.events import Recorder
from client.informer import Informer, InformerFactory
from client.rest import STRATEGIC, Client
from component import logs
from component.clock import Clock
from controlplane.scheduler.devices.pools import Catalogue
from controlplane.scheduler.devices.taken import Taken
from controlplane.scheduler.framework.devices import Action
from controlplane.scheduler.framework.events import Action as Did
from controlplane.scheduler.framework.events import ClusterEvent, On
from controlplane.scheduler.waiters import Waiters

_EXTENDED = "extended-of-pod"
_CLEANUPS = 4
_log = logs.get(__name__)


class ApiDevices:
    """``remapped`` hears when other extended resources are backed by devices than before."""

    def __init__(
        self,
        client: Client,
        informers: InformerFactory,
        recorder: Recorder,
        clock: Clock,
        remapped: Callable[[], object],
        *,
        partitionable: bool = True,
        taint_rules: bool = False,
    ) -> None:
        self._client, self._recorder = client, recorder
        self._remapped, self._partitionable = remapped, partitionable
        self._claims = informers.informer(RESOURCE_CLAIMS)
        self._slices, self._classes = informers.informer(RESOURCE_SLICES), informers.informer(DEVICE_CLASSES)
        self._rules = informers.informer(DEVICE_TAINT_RULES) if taint_rules else None
        self._claims.add_index(_EXTENDED, _extended_owner)
        self._assumed = Assumed(self._claims)
        self._promised: dict[str, Object] = {}
        self._taken, self._counted = Taken(), dict[str, list[dict[str, object]]]()
        self._catalogue: Catalogue | None = None
        self._mapping: dict[str, str] | None = None
        self._cleanups: deque[Action] = deque()
        self._wanted = asyncio.Event()
        self._waiters = Waiters(clock)
        self._claims.add_handler(on_add=self._seen, on_update=lambda old, new: self._seen(new), on_delete=self._gone)
        pools, classes = self._forget_pools, self._forget_classes
        self._slices.add_handler(on_add=pools, on_update=lambda old, new: pools(new), on_delete=pools)
        if self._rules is not None:
            self._rules.add_handler(on_add=pools, on_update=lambda old, new: pools(new), on_delete=pools)
        self._classes.add_handler(on_add=classes, on_update=lambda old, new: classes(new), on_delete=classes)

    def report(self, tell: Callable[[ClusterEvent], object]) -> None:
        """``tell`` hears of changes that may make a refused pod fit; call after this has been told itself."""
        for on, informer in (
            (On.RESOURCE_CLAIM, self._claims),
            (On.RESOURCE_SLICE, self._slices),
            (On.DEVICE_CLASS, self._classes),
        ):
            self._report(on, informer, tell)
        if self._rules is not None:  # as if a slice had changed: devices lose or get a taint

            def changed(*_: Object) -> None:
                tell(ClusterEvent(On.RESOURCE_SLICE, Did.UPDATE_OTHER, None, None))

            self._rules.add_handler(on_add=changed, on_update=changed, on_delete=changed)

    @staticmethod
    def _report(on: str, informer: Informer, tell: Callable[[ClusterEvent], object]) -> None:
        informer.add_handler(
            on_add=lambda new: tell(ClusterEvent(on, Did.ADD, None, new)),
            on_update=lambda old, new: tell(ClusterEvent(on, Did.UPDATE_OTHER, old, new)),
            on_delete=lambda old: tell(ClusterEvent(on, Did.DELETE, old, None)),
        )

    async def run(self) -> None:
        """Cleans up, a few at a time, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(_CLEANUPS):
                group.create_task(self._clean_up(), name=f"claims-{number}")

    async def _clean_up(self) -> None:
        while True:
            if not self._cleanups:
                self._wanted.clear()
                await self._wanted.wait()
                continue
            action = self._cleanups.popleft()
            try:
                await action()
            except (StatusError, ConnectionError) as error:
                _log.warning("A claim could not be cleaned up, its next user will", err=error)

    # Reads

    def claim(self, namespace: str, name: str) -> Object | None:
        return self._assumed.get(make_key(namespace, name))

    def extended_claim(self, pod_uid: str) -> Object | None:
        return next(iter(self._claims.lister.by_index(_EXTENDED, pod_uid)), None)

    def classes(self) -> Mapping[str, Object]:
        return {name_of(each): each for each in self._classes.lister.list()}

    def class_of(self, resource: str) -> str:
        if resource.startswith(claims.IMPLICIT_EXTENDED_PREFIX):
            name = resource.removeprefix(claims.IMPLICIT_EXTENDED_PREFIX)
            return name if self._classes.lister.get(name) is not None else ""
        if self._mapping is None:
            self._mapping = mapping_of(self._classes.lister.list())
        return self._mapping.get(resource, "")

    def catalogue(self) -> Catalogue:
        if self._catalogue is None:
            rules = self._rules.lister.list() if self._rules is not None else ()
            slices = device_taints.with_rules(self._slices.lister.list(), rules) if rules else self._slices.lister.list()
            self._catalogue = Catalogue(slices, partitionable=self._partitionable)
        return self._catalogue

    def taken(self) -> Taken:
        return self._taken

    def is_promised(self, claim: Object) -> bool:
        return uid_of(claim) in self._promised

    # Promises and writes

    def promise(self, claim: Object) -> None:
        self._promised[uid_of(claim)] = claim
        if _is_to_be_made(claim):
            self._count(uid_of(claim), claim)
            return
        self._assumed.intend(claim)
        self._recount(key_of(claim))

    def withdraw(self, claim: Object) -> bool:
        if self._promised.pop(uid_of(claim), None) is None:
            return False
        self._count(uid_of(claim), None)
        self._assumed.drop(key_of(claim))
        self._recount(key_of(claim))
        return True

    def kept(self, promised: Object, written: Object) -> None:
        self._promised.pop(uid_of(promised), None)
        self._assumed.wrote(written)
        shown = self._claims.lister.get_key(key_of(written))
        if _is_to_be_made(promised) and (shown is None or claims.allocation_of(shown) is None):
            self._count(uid_of(written), written)  # until it is seen
        else:
            self._count(uid_of(written), None)
        self._count(uid_of(promised), None)
        self._recount(key_of(written))

    async def get(self, claim: Object) -> Object:
        return await self._client.get(RESOURCE_CLAIMS, name_of(claim), namespace_of(claim))

    async def create(self, claim: Object) -> Object:
        return await self._client.create(RESOURCE_CLAIMS, claim)

    async def update(self, claim: Object) -> Object:
        return await self._client.update(RESOURCE_CLAIMS, claim)

    async def update_status(self, claim: Object) -> Object:
        return await self._client.update_status(RESOURCE_CLAIMS, claim)

    async def unreserve(self, claim: Object, pod: Object) -> None:
        reserved = [{"$patch": "delete", "uid": uid_of(pod)}]
        body = {"metadata": {"uid": uid_of(claim)}, "status": {"reservedFor": reserved}}
        await self._client.patch(RESOURCE_CLAIMS, name_of(claim), body, STRATEGIC, namespace_of(claim), subresource="status")

    async def delete(self, claim: Object) -> None:
        try:
            held = clone(await self.get(claim))
            if remove_finalizer(held, claims.FINALIZER):
                await self.update(held)
            name, namespace = name_of(claim), namespace_of(claim)
            await self._client.delete(RESOURCE_CLAIMS, name, namespace, preconditions={"uid": uid_of(claim)})
        except StatusError as error:
            if error.code != 404:
                raise

    async def note_extended(self, pod: Object, claim: str, mappings: Collection[Mapping[str, str]]) -> None:
        told = {"resourceClaimName": claim, "requestMappings": list(mappings)}
        body = {"metadata": {"uid": uid_of(pod)}, "status": {"extendedResourceClaimStatus": told}}
        await self._client.patch(PODS, name_of(pod), body, STRATEGIC, namespace_of(pod), subresource="status")

    def later(self, action: Action) -> None:
        self._cleanups.append(action)
        self._wanted.set()

    def event(self, pod: Object, reason: str, message: str) -> None:
        self._recorder.event(pod, "Normal", reason, message, "Scheduling")

    async def change(self, keys: Iterable[str], seconds: float) -> None:
        await self._waiters.change(keys, seconds)

    # What informers tell

    def _seen(self, claim: Object) -> None:
        if claims.allocation_of(claim) is not None:
            self._count(uid_of(claim), None)
        self._recount(key_of(claim))
        self._waiters.wake(key_of(claim))

    def _gone(self, claim: Object) -> None:
        self._promised.pop(uid_of(claim), None)
        self._count(uid_of(claim), None)
        self._count(key_of(claim), None)
        self._waiters.wake(key_of(claim))

    def _recount(self, key: str) -> None:
        self._count(key, self._assumed.get(key))

    def _count(self, key: str, claim: Object | None) -> None:
        """Let what is counted under ``key`` be what the claim has."""
        before, now = self._counted.pop(key, []), claims.results_of(claim) if claim is not None else []
        if now:
            self._counted[key] = now
        if before != now:
            self._taken.add(now)
            self._taken.remove(before)

    def _forget_pools(self, changed: Object) -> None:
        self._catalogue = None

    def _forget_classes(self, changed: Object) -> None:
        self._mapping = None
        self._remapped()


def mapping_of(classes: Iterable[Object]) -> dict[str, str]:
    """Extended resource to DeviceClass. Of several the one that was made last counts, then the first by name. Pure."""
    found: dict[str, str] = {}
    by_name = sorted(classes, key=name_of, reverse=True)
    for each in sorted(by_name, key=lambda each: str(each["metadata"].get("creationTimestamp") or "")):
        if resource := (each.get("spec") or {}).get("extendedResourceName"):
            found[resource] = name_of(each)
    return found


def _is_to_be_made(claim: Object) -> bool:
    return not claim["metadata"].get("resourceVersion")


def _extended_owner(claim: Object) -> Iterable[str]:
    if annotation(claim, claims.EXTENDED_ANNOTATION) == "true":
        _, uid = claims.owning_pod(claim)
        if uid:
            yield uid
