"""What admission policies need of the server: the caches of policies and bindings, and objects of any kind as parameters."""

from collections.abc import Iterable, Mapping
from typing import cast

from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.admission.catalog import Policies
from controlplane.apiserver.admission.policy.metrics import PolicyMetrics
from controlplane.apiserver.admission.policy.params import Object, ParamKind
from controlplane.apiserver.admission.policy.source import Held
from controlplane.apiserver.registry.conversion import converted
from controlplane.apiserver.registry.store import CACHED, Store
from controlplane.apiserver.registry.strategy import Strategy
from controlplane.apiserver.storage.interface import ListOptions


class Parameters:
    """Objects of one kind: what the cache holds, and a single one that it lacks as of now."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.namespaced = store.info.namespaced

    async def get(self, namespace: str, name: str) -> Object | None:
        key = self._store.key(namespace, name)
        for version in (CACHED, ""):
            try:
                return converted(await self._store.objects.get(key, version), self._store.strategy).decode()
            except KeyError:
                continue
        return None

    async def list(self, namespace: str) -> list[Object]:
        found = await self._store.list(namespace, ListOptions(resource_version=CACHED))
        return [entry.decode() for entry in found.entries]


class Kinds:
    """The kinds that are served, in each of their versions."""

    def __init__(self, kinds: Iterable[Strategy], stores: Mapping[str, Store]) -> None:
        self._stores, self._kinds = stores, {kind.info.gvk: kind for kind in kinds}

    def find(self, kind: GroupVersionKind) -> ParamKind | None:
        strategy = self._kinds.get(kind)
        if strategy is None:
            return None
        found = self._stores[strategy.info.gvr.group_resource]
        return Parameters(found if found.strategy is strategy else Store(strategy, found.objects))


def policies_of(kinds: Iterable[Strategy], stores: Mapping[str, Store], metrics: PolicyMetrics) -> Policies:
    return Policies(lambda resource: cast("Held", stores[resource].objects), Kinds(kinds, stores), metrics)
