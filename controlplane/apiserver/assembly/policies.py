"""What admission policies need of the server: the caches of policies and bindings, and objects of any kind as parameters."""

from collections.abc import Iterable, Mapping
from typing import cast

from prometheus_client import CollectorRegistry

from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.admission.catalog import Policies
from controlplane.apiserver.admission.condition_metrics import ConditionMetrics
from controlplane.apiserver.admission.policy.metrics import PolicyMetrics
from controlplane.apiserver.admission.policy.mutation_metrics import MutationMetrics
from controlplane.apiserver.admission.policy.params import Object, ParamKind
from controlplane.apiserver.admission.policy.source import Held
from controlplane.apiserver.crd.registration import Registration
from controlplane.apiserver.registry.store import CACHED, Store
from controlplane.apiserver.registry.strategy import Strategy
from controlplane.apiserver.storage.interface import ListOptions


class Parameters:
    """Objects of one kind: what the cache holds, and a single one that it lacks as of now."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.namespaced, self.resource = store.info.namespaced, store.info.gvr.resource

    async def get(self, namespace: str, name: str) -> Object | None:
        key = self._store.key(namespace, name)
        for version in (CACHED, ""):
            try:
                return (await self._store.shown(await self._store.objects.get(key, version))).decode()
            except KeyError:
                continue
        return None

    async def list(self, namespace: str) -> list[Object]:
        found = await self._store.list(namespace, ListOptions(resource_version=CACHED))
        return [entry.decode() for entry in found.entries]


class Kinds:
    """The kinds that are served, in each of their versions. ``custom`` knows those of custom resources, once there is one."""

    def __init__(self, kinds: Iterable[Strategy], stores: Mapping[str, Store]) -> None:
        self._stores, self._kinds = stores, {kind.info.gvk: kind for kind in kinds}
        self.custom: Registration | None = None

    def find(self, kind: GroupVersionKind) -> ParamKind | None:
        strategy = self._kinds.get(kind)
        if strategy is None:
            store = self.custom.store_of(kind) if self.custom is not None else None
            return Parameters(store) if store is not None else None
        found = self._stores[strategy.info.gvr.group_resource]
        return Parameters(found if found.strategy is strategy else Store(strategy, found.objects))


def policies_of(kinds: Kinds, stores: Mapping[str, Store], metrics: CollectorRegistry, conditions: ConditionMetrics) -> Policies:
    """What they measure is registered with ``metrics``, but for ``conditions``, which webhooks have as well."""
    checks, mutations = PolicyMetrics(), MutationMetrics()
    metrics.register(checks)
    metrics.register(mutations)
    return Policies(lambda resource: cast("Held", stores[resource].objects), kinds, checks, mutations, conditions)
