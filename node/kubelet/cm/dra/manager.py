"""Makes the devices of a pod's claims ready before its containers start, and gives them back when the pod is done.

``pod_sync`` calls :meth:`prepare` before a sandbox is made and :meth:`unprepare` after the last container has stopped;
``runtime.containers`` asks :meth:`cdi_devices` for what the runtime is to put into a container. What is asked of drivers is on
disk first (``state``), so that a kubelet that dies in between knows what to undo. Rules and words: upstream's
``pkg/kubelet/cm/dra``.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.meta import name_of, namespace_of, uid_of
from apimachinery.objects import claims
from apimachinery.resources import RESOURCE_CLAIMS
from client.rest import Client
from component import logs
from component.clock import Clock
from component.errors import OperatorError
from node.kubelet.cm import checkpoint
from node.kubelet.cm.checkpoint import CheckpointError
from node.kubelet.cm.dra import state
from node.kubelet.cm.dra.api import dra_v1_pb2 as pb
from node.kubelet.cm.dra.metrics import DraMetrics
from node.kubelet.cm.dra.plugin import Plugin
from node.kubelet.cm.dra.registry import DraRegistry
from node.kubelet.cm.dra.state import ClaimInfo, Device
from node.kubelet.cm.interface import DraError

_PERIOD = 60.0
_log = logs.get(__name__)

Pod = Mapping[str, Any]
Container = Mapping[str, Any]
Key = tuple[str, str]


class DraManager:
    """One per kubelet. ``active``: uids of the pods that may still run; None while they are not known for sure."""

    def __init__(
        self,
        client: Client,
        registry: DraRegistry,
        root: Path,
        clock: Clock,
        metrics: DraMetrics,
        active: Callable[[], Collection[str] | None],
        *,
        extended: bool = True,
    ) -> None:
        self._client, self._registry, self._clock, self._metrics = client, registry, clock, metrics
        self._path, self._active, self._extended = root / state.FILE, active, extended
        self._infos: dict[Key, ClaimInfo] = {}
        self._locks: dict[Key, asyncio.Lock] = {}
        self._users: Counter[Key] = Counter()
        self._writing = asyncio.Lock()

    def restore(self) -> None:
        """Read what a predecessor left; called in a thread. Raises OperatorError."""
        try:
            self._infos = {info.key: info for info in state.load(self._path)}
        except (CheckpointError, OSError) as error:
            text = "drain this node and delete the file before the kubelet is started again"
            raise OperatorError(f"DRA manager: {self._path}: {error}; {text}") from None

    async def run(self) -> None:
        """Undo what pods that are gone have left, until cancelled."""
        while True:
            await self._clock.sleep(_PERIOD)
            await self.sweep()

    async def sweep(self) -> None:
        """One pass; what fails is tried again in the next."""
        active = self._active()
        if active is None:
            return
        gone: dict[str, list[Key]] = {}
        for info in self._infos.values():
            for uid in info.pods - set(active):
                gone.setdefault(uid, []).append(info.key)
        for uid, keys in gone.items():
            try:
                await self._unprepare(uid, keys)
            except DraError as error:
                _log.warning("Devices of a pod that is gone could not be given back, trying again", uid=uid, err=error)

    # Making ready

    def wants(self, pod: Pod) -> bool:
        """Whether the pod has claims that were not made ready yet, by this kubelet."""
        names = [wanted.claim for wanted in self._wanted(pod)]
        held = [self._infos.get((namespace_of(pod), name)) for name in names]
        return any(info is None or uid_of(pod) not in info.pods for info in held)

    async def prepare(self, pod: Pod) -> None:
        """Idempotent. Raises DraError."""
        if not claims.entries_of(dict(pod)) and not claims.extended_claim_of(dict(pod)):
            return
        async with self._measured("PrepareResources", "prepare dynamic resources"):
            await self._prepare(pod)

    async def _prepare(self, pod: Pod) -> None:
        found = [(await self._checked(pod, wanted)) for wanted in self._wanted(pod, strict=True)]
        plugins = {driver: self._registry.plugin(driver) for info in found for driver in info.drivers}
        async with self._locked(info.key for info in found):
            batches: dict[Plugin, list[ClaimInfo]] = {}
            for fresh in found:
                info = self._infos.setdefault(fresh.key, fresh)
                if info.uid != fresh.uid:
                    raise DraError(
                        f"old ResourceClaim with same name {info.name} and different UID {info.uid} still exists "
                        "(previous pod force-deleted?!)"
                    )
                info.pods.add(uid_of(pod))
                if not info.prepared:
                    for driver in info.drivers:
                        batches.setdefault(plugins.get(driver) or self._registry.plugin(driver), []).append(info)
            await self._store()  # before anything is asked: if this kubelet dies, the next one knows what to undo
            for plugin, infos in batches.items():
                await self._prepare_with(plugin, infos)
            for infos in batches.values():
                for info in infos:
                    info.prepared = True
            await self._store()

    async def _checked(self, pod: Pod, wanted: claims.Wanted) -> ClaimInfo:
        """What the claim says now. Raises DraError if the pod may not use it."""
        try:
            claim = await self._client.get(RESOURCE_CLAIMS, wanted.claim, namespace_of(pod))
        except (StatusError, OSError) as error:
            text = error.message if isinstance(error, StatusError) else str(error)
            raise DraError(f"fetch ResourceClaim {wanted.claim}: {text}") from None
        if wanted.own and (problem := claims.not_of_pod(dict(pod), claim)):
            raise DraError(problem)
        if not claims.is_reserved_for(dict(pod), claim):
            raise DraError(
                f"pod {name_of(pod)} ({uid_of(pod)}) is not allowed to use ResourceClaim {wanted.claim} ({uid_of(claim)})"
            )
        if claims.allocation_of(claim) is None:
            raise DraError(f"ResourceClaim {wanted.claim}: claim not allocated")
        drivers: dict[str, list[Device]] = {str(result.get("driver")): [] for result in claims.results_of(claim)}
        return ClaimInfo(uid_of(claim), wanted.claim, namespace_of(pod), drivers=drivers)

    async def _prepare_with(self, plugin: Plugin, infos: Sequence[ClaimInfo]) -> None:
        answer = await plugin.prepare([_described(info) for info in infos])
        by_uid = _answered("NodePrepareResources", infos, answer.claims)
        for info, result in by_uid:
            info.drivers[plugin.driver] = [_device(each) for each in result.devices]

    # Giving back

    async def unprepare(self, pod_uid: str) -> None:
        """Idempotent. Raises DraError: the pod's end then has to wait."""
        keys = [info.key for info in self._infos.values() if pod_uid in info.pods]
        if not keys:
            return
        async with self._measured("UnprepareResources", "unprepare dynamic resources"):
            await self._unprepare(pod_uid, keys)

    async def _unprepare(self, pod_uid: str, keys: Sequence[Key]) -> None:
        async with self._locked(keys):
            last = []
            for key in keys:
                info = self._infos.get(key)
                if info is None or pod_uid not in info.pods:
                    continue
                if len(info.pods) > 1:
                    info.pods.discard(pod_uid)  # others use it still
                else:
                    last.append(info)
            batches: dict[str, list[ClaimInfo]] = {}
            for info in last:
                for driver in info.drivers:
                    batches.setdefault(driver, []).append(info)
            for driver, infos in batches.items():
                answer = await self._registry.plugin(driver).unprepare([_described(info) for info in infos])
                _answered("NodeUnprepareResources", infos, answer.claims)
            for info in last:
                del self._infos[info.key]
            await self._store()

    # Telling

    def cdi_devices(self, pod: Pod, container: Container) -> tuple[str, ...]:
        """Ids of what the container may use. Raises DraError for a claim that was not made ready."""
        found: dict[str, None] = {}
        for name, requests in self._requests(pod, container).items():
            info = self._infos.get((namespace_of(pod), name))
            if info is None:
                raise DraError(
                    f"internal error: unable to get claim info for ResourceClaim {name} in namespace {namespace_of(pod)}"
                )
            for request in requests:
                found.update(dict.fromkeys(info.cdi_ids(request)))
        return tuple(found)

    def claims_of(self, pod: Pod, container: Container) -> list[ClaimInfo]:
        """The claims that a container uses, as far as they have been made ready."""
        infos = (self._infos.get((namespace_of(pod), name)) for name in self._requests(pod, container))
        return [info for info in infos if info is not None]

    def _requests(self, pod: Pod, container: Container) -> dict[str, list[str]]:
        """Claim to the requests of it that the container names; an empty one is all of them."""
        found: dict[str, list[str]] = {}
        named: dict[str, list[str]] = {}
        for each in (container.get("resources") or {}).get("claims") or ():
            named.setdefault(each.get("name", ""), []).append(each.get("request") or "")
        for wanted in self._wanted(pod):
            if wanted.entry in named:
                found.setdefault(wanted.claim, []).extend(named[wanted.entry])
        told = ((pod.get("status") or {}).get("extendedResourceClaimStatus")) or {}
        if self._extended and told:
            for each in told.get("requestMappings") or ():
                if each.get("containerName") == container.get("name"):
                    found.setdefault(told["resourceClaimName"], []).append(each["requestName"])
        return found

    def _wanted(self, pod: Pod, *, strict: bool = False) -> list[claims.Wanted]:
        """The pod's claims. ``strict`` raises DraError where one has not been made yet."""
        found = []
        for entry in claims.entries_of(dict(pod)):
            try:
                wanted = claims.claim_of(dict(pod), entry)
            except claims.ClaimError as error:
                if strict:
                    raise DraError(str(error)) from None
                continue
            if wanted is not None:
                found.append(wanted)
        if self._extended and (name := claims.extended_claim_of(dict(pod))):
            found.append(claims.Wanted("", name, own=True))
        return found

    # Keeping

    async def _store(self) -> None:
        async with self._writing:
            document = state.encode(self._infos.values())
            try:
                await asyncio.to_thread(checkpoint.write, self._path, document)
            except OSError as error:
                raise DraError(f"checkpoint ResourceClaim state: {error}") from None
        by_driver = Counter(driver for info in self._infos.values() for driver in info.drivers)
        self._metrics.in_use(len(self._infos), by_driver)

    @asynccontextmanager
    async def _locked(self, keys: Iterable[Key]) -> AsyncIterator[None]:
        """Two pods of one claim are served one after the other. In order, so that none waits for each other."""
        wanted = sorted(set(keys))
        self._users.update(wanted)
        try:
            async with AsyncExitStack() as stack:
                for key in wanted:
                    await stack.enter_async_context(self._locks.setdefault(key, asyncio.Lock()))
                yield
        finally:
            self._users.subtract(wanted)
            for key in wanted:
                if not self._users[key]:
                    del self._users[key], self._locks[key]

    @asynccontextmanager
    async def _measured(self, operation: str, what: str) -> AsyncIterator[None]:
        began, failed = self._clock.monotonic(), True
        try:
            yield
            failed = False
        except DraError as error:
            raise DraError(f"{what}: {error}") from None
        finally:
            self._metrics.operated(operation, self._clock.monotonic() - began, failed=failed)


def _described(info: ClaimInfo) -> pb.Claim:
    return pb.Claim(namespace=info.namespace, uid=info.uid, name=info.name)


def _device(told: pb.Device) -> Device:
    share = told.share_id if told.HasField("share_id") else ""
    return Device(told.pool_name, told.device_name, tuple(told.request_names), tuple(told.cdi_device_ids), share)


def _answered(method: str, infos: Sequence[ClaimInfo], results: Mapping[str, Any]) -> list[tuple[ClaimInfo, Any]]:
    """Each claim with what the driver says of it. Raises DraError unless all of them succeeded. Pure."""
    known = {info.uid: info for info in infos}
    for uid, result in results.items():
        if uid not in known:
            raise DraError(f"{method} returned result for unknown claim UID {uid}")
        if result.error:
            raise DraError(f"{method} failed for ResourceClaim {known[uid].name}: {result.error}")
    if missing := len(known) - len(results):
        raise DraError(f"{method} skipped {missing} ResourceClaims")
    return [(known[uid], result) for uid, result in results.items()]
