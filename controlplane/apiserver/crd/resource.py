"""One custom resource as it is served while the spec of its definition stays the same: stores, scopes, routes, all on demand.

``registration`` makes one for each definition, and another in its place when the spec changes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from apimachinery import errors
from apimachinery.schema import Schemas
from component.featuregates import Gates
from controlplane.apiserver.admission.chain import AdmissionChain
from controlplane.apiserver.authorization.interface import Authorizer
from controlplane.apiserver.crd.conversion import Asking, Converter, Memory, Post, Renaming
from controlplane.apiserver.crd.definition import Definition, Version, preserves, schema_of
from controlplane.apiserver.crd.objects import LazyObjects
from controlplane.apiserver.crd.store import CustomStore, Versions
from controlplane.apiserver.crd.strategy import CustomResourceStrategy, stored_strategy
from controlplane.apiserver.crd.structural import Structural, compile_structural
from controlplane.apiserver.endpoints.scope import Scope
from controlplane.apiserver.endpoints.watch import OpenWatches
from controlplane.apiserver.registry.strategy import ResourceInfo
from controlplane.apiserver.registry.traits import collection_of
from controlplane.apiserver.routing import Endpoint, Routes, routes_of
from controlplane.apiserver.storage.cacher.cacher import Cacher
from controlplane.apiserver.storage.interface import Collection
from controlplane.apiserver.wire.call import Call
from controlplane.apiserver.wire.reply import Answer

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all custom resources share. ``cache`` makes the cache of a collection, not started yet; ``release`` ends one."""

    schemas: Schemas
    admission: AdmissionChain
    authorizer: Authorizer
    features: Gates
    watches: OpenWatches
    cache: Callable[[ResourceInfo, Collection], Cacher]
    release: Callable[[Cacher], None]
    post: Post


class CustomResource:
    def __init__(self, definition: Definition, source: Callable[[], Object], around: Surroundings) -> None:
        """``source`` gives the definition's object, whose schemas are read when they are needed."""
        self.definition = definition
        self._source, self._around = source, around
        self._structurals: dict[str, Structural] = {}
        self._routes: dict[str, Routes] = {}
        self._stored = stored_strategy(definition, self.structural)
        self.objects = LazyObjects(self._cache, around.release)
        self._versions: Versions | None = None

    def close(self) -> None:
        self.objects.close()

    def follow(self, definition: Definition) -> None:
        """Go on under a definition that differs in its conditions and metadata alone."""
        self.definition = definition
        self._routes.clear()

    # ------------------------------------------------------------------ schemas

    def structural(self, version: str) -> Structural:
        found = self._structurals.get(version)
        if found is None:
            definition = self._source()
            found = compile_structural(schema_of(definition, version), preserves=preserves(definition))
            self._structurals[version] = found
        return found

    def _prune(self, version: str, obj: Object) -> None:
        self.structural(version).prune(obj)

    def _alike(self, one: str, other: str) -> bool:
        """Whether two versions of the definition have one schema."""
        if self.definition.version(one) is None:
            return False
        definition = self._source()
        return schema_of(definition, one) == schema_of(definition, other)

    def _restore(self, obj: Object) -> bool:
        """What is stored, as the present schema of its version sees it. One that is gone knows nothing of it."""
        version = str(obj.get("apiVersion") or "").rpartition("/")[2]
        if self.definition.version(version) is None:
            return False
        structural, before = self.structural(version), orjson.dumps(obj)
        structural.prune(obj)
        structural.default(obj)
        return orjson.dumps(obj) != before

    # ------------------------------------------------------------------ objects

    def _cache(self) -> Cacher:
        return self._around.cache(self._stored.info, replace(collection_of(self._stored), restore=self._restore))

    @property
    def versions(self) -> Versions:
        if self._versions is None:
            definition = self.definition
            self._versions = Versions(
                definition.group, definition.storage_version, self._converter(), self._prune, Memory(), self._alike
            )
        return self._versions

    def _converter(self) -> Converter:
        definition = self.definition
        if not definition.webhook:
            return Renaming(definition.group)
        conversion = self._source()["spec"]["conversion"]
        return Asking(definition.gvk(definition.storage_version), conversion, self._around.post)

    def store(self, version: str) -> CustomStore:
        """Objects in one version. Raises KeyError for one that the definition does not have."""
        found = self.definition.version(version)
        if found is None:
            raise KeyError(version)
        return CustomStore(self._strategy(found), self.objects, self.versions)

    def _strategy(self, version: Version) -> CustomResourceStrategy:
        strategy = CustomResourceStrategy(self.definition, version, self.structural)
        strategy.convert = self._convert
        return strategy

    async def _convert(self, obj: Object, version: str) -> Object:
        (made,) = await self.versions.converter.convert([obj], version)
        return made

    # ------------------------------------------------------------------ requests

    def routes(self, version: str) -> Routes | None:
        """None for a version that is not served."""
        found = self._routes.get(version)
        if found is None:
            known = self.definition.version(version)
            if known is None or not known.served:
                return None
            found = self._routes[version] = self._made_routes(version)
        return found

    def _made_routes(self, version: str) -> Routes:
        around = self._around
        others = tuple(self._strategy(each) for each in self.definition.served() if each.name != version)
        scope = Scope(self.store(version), around.schemas, around.admission, around.authorizer, others, around.features)
        extra: Mapping[tuple[str, str], Endpoint] = {("", "create"): _refuse_create} if self.definition.terminating else {}
        return routes_of(scope, around.watches, extra)


async def _refuse_create(call: Call) -> Answer:
    info = call.info
    refusal = errors.method_not_supported(info.resource, info.verb, info.api_group)
    text = f"{info.verb} not allowed while custom resource definition is terminating"
    raise errors.StatusError({**refusal.status, "message": text})
