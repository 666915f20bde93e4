"""Which custom resources there are, from moment to moment: what routing, discovery and OpenAPI ask.

The cache of CustomResourceDefinitions is the truth, and is looked at for each question: whoever has seen a definition established
finds it served in the same moment, and nothing has to be kept in step. What is made of a definition is kept until its spec
changes. :meth:`Registration.follow` is the watch that ends what is no longer so: caches, and with them watches, of definitions
that changed or went, whose clients then list again.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from apimachinery.gvk import GroupVersionKind
from component import logs
from controlplane.apiserver.crd.definition import Definition, Version, parse, published_schema_of
from controlplane.apiserver.crd.resource import CustomResource, Surroundings
from controlplane.apiserver.crd.store import CustomStore
from controlplane.apiserver.crd.strategy import PATCHES
from controlplane.apiserver.discovery import Listed, SubresourceInfo
from controlplane.apiserver.openapi.custom import Kind
from controlplane.apiserver.routing import Routes
from controlplane.apiserver.storage.cacher.cacher import Cacher
from controlplane.apiserver.storage.encoding import StoredEntry
from controlplane.apiserver.storage.interface import WatchOptions
from controlplane.apiserver.wire.info import RequestInfo

Object = dict[str, Any]

RETRY_SECONDS = 1.0
_READ_WRITE = ("get", "patch", "update")
_SCALE = GroupVersionKind("autoscaling", "v1", "Scale")
_WHILE_TERMINATING = ("delete", "deletecollection", "get", "list", "watch")
_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Published:
    """A version that is served, for those who describe it. ``schema()`` reads its OpenAPI schema."""

    definition: Definition
    version: Version
    listed: Listed
    schema: Callable[[], Object]


class Registration:
    def __init__(self, definitions: Cacher, around: Surroundings) -> None:
        """``definitions`` is the started cache of CustomResourceDefinitions."""
        self._cache, self._around = definitions, around
        self._prefix = definitions.collection.prefix
        self._parsed: dict[str, Definition] = {}  # by key, as long as the revision is the same
        self._resources: dict[str, CustomResource] = {}  # by name
        self._published: tuple[int, list[Published]] = (-1, [])
        self._by_kind: tuple[list[Published], dict[GroupVersionKind, str]] = ([], {})
        self._on_change: list[Callable[[], None]] = []
        self._described: tuple[list[Published], list[Kind]] = ([], [])

    # ------------------------------------------------------------------ questions

    @property
    def revision(self) -> int:
        """As long as it is the same, so is every answer."""
        return self._cache.changed

    def routes(self, info: RequestInfo) -> Routes | None:
        """The endpoints of the custom resource that a request names; None for one that is not served."""
        if not info.api_group:
            return None
        resource = self.resource(f"{info.resource}.{info.api_group}")
        return None if resource is None or not resource.definition.serving else resource.routes(info.api_version)

    def resource(self, name: str) -> CustomResource | None:
        """By the name of its definition, whether it is served or not."""
        entry = self._cache.held(self._prefix + name)
        if entry is None:
            self._drop(name)
            return None
        definition = self._definition(entry)
        known = self._resources.get(name)
        if known is not None and known.definition is definition:
            return known
        if known is not None and known.definition.same_resource(definition):
            known.follow(definition)
            return known
        self._drop(name)
        made = self._resources[name] = CustomResource(definition, self._source(name), self._around)
        return made

    def published(self) -> list[Published]:
        """Every served version of every established definition, in the order of their names."""
        if self._published[0] != self.revision:
            definitions = [self._definition(entry) for entry in self._cache.all_held()]
            made = [
                self._publish(definition, version)
                for definition in definitions
                if definition.established
                for version in definition.served()
            ]
            self._published = self.revision, made
        return self._published[1]

    def store_of(self, kind: GroupVersionKind) -> CustomStore | None:
        """The objects of a kind that is served, in its version."""
        published = self.published()
        if self._by_kind[0] is not published:
            self._by_kind = published, {each.listed.info.gvk: each.definition.name for each in published}
        name = self._by_kind[1].get(kind)
        resource = self.resource(name) if name is not None else None
        return resource.store(kind.version) if resource is not None else None

    def listed(self) -> list[Listed]:
        """For discovery."""
        return [each.listed for each in self.published()]

    def described(self) -> list[Kind]:
        """For OpenAPI: the same list as long as it is equal."""
        published = self.published()
        if self._described[0] is not published:
            made = [
                Kind((each.definition.uid, each.definition.spec_digest, each.version.name, each.listed), each.listed, each.schema)
                for each in published
            ]
            self._described = published, made
        return self._described[1]

    def _definition(self, entry: StoredEntry) -> Definition:
        found = self._parsed.get(entry.key)
        if found is None or found.revision != entry.revision:
            found = self._parsed[entry.key] = parse(entry.decode(), entry.revision)
        return found

    def _publish(self, definition: Definition, version: Version) -> Published:
        info = definition.info(version)
        if definition.terminating:
            info = replace(info, verbs=_WHILE_TERMINATING)
        subresources = []
        if version.scale is not None:
            subresources.append(SubresourceInfo("scale", _SCALE, _READ_WRITE))
        if version.has_status:
            subresources.append(SubresourceInfo("status", info.gvk, _READ_WRITE))
        listed = Listed(info, tuple(subresources), definition.gvk(definition.storage_version), PATCHES)
        source = self._source(definition.name)
        return Published(definition, version, listed, lambda: published_schema_of(source(), version.name))

    def _source(self, name: str) -> Callable[[], Object]:
        """Reads the definition as it is now; the last one known, once it is gone."""
        last = self._cache.held(self._prefix + name)
        uid = self._definition(last).uid if last is not None else ""

        def read() -> Object:
            nonlocal last
            entry = self._cache.held(self._prefix + name)
            if entry is not None and self._definition(entry).uid == uid:
                last = entry
            assert last is not None
            return last.decode()

        return read

    # ------------------------------------------------------------------ changes

    def _drop(self, name: str) -> None:
        resource = self._resources.pop(name, None)
        if resource is not None:
            resource.close()

    def on_change(self, act: Callable[[], None]) -> None:
        """Call ``act`` whenever definitions have changed; soon, that is, and not for each change."""
        self._on_change.append(act)

    async def follow(self) -> None:
        """Until cancelled."""
        while True:
            watch = await self._cache.watch(self._prefix, WatchOptions())
            try:
                while await watch.batch():
                    self._tidy()
                    for act in self._on_change:
                        act()
            finally:
                watch.close()
            _log.warning("The watch of definitions has ended, beginning again")
            await asyncio.sleep(RETRY_SECONDS)

    def _tidy(self) -> None:
        """Look at what there is again: what has changed is closed, what is gone forgotten."""
        for name in list(self._resources):
            self.resource(name)
        present = {entry.key for entry in self._cache.all_held()}
        for key in self._parsed.keys() - present:
            del self._parsed[key]
