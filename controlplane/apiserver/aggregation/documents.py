"""What extension servers say they have, fetched and kept: discovery, the index of their OpenAPI v3 documents, and OpenAPI v2.

``discovery`` and ``openapi`` merge it with what this server has. A server that does not answer keeps what it said last, as stale;
each is asked again every minute, and when its APIServices or their availability change.
"""

import asyncio
import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from apimachinery.gvk import GroupVersion
from component import logs
from component.clock import Clock, timeout
from component.tasks import Backoff
from controlplane.apiserver.aggregation.backends import Backend, Backends, UnreachableError
from controlplane.apiserver.aggregation.identity import AVAILABILITY, OPENAPI
from controlplane.apiserver.aggregation.registered import Registered, ServiceReference
from controlplane.apiserver.aggregation.remote_discovery import ACCEPT, version_of, versions_of
from controlplane.apiserver.aggregation.services import APIServices
from controlplane.apiserver.service_client import ResolveError

Object = dict[str, Any]
REFRESH_SECONDS = 60.0
_DISCOVERY_SECONDS, _OPENAPI_SECONDS = 5.0, 60.0
_LIMIT = 32 << 20  # bytes of one document
_FIRST_RETRY = 0.5
_JSON = "application/json"
_log = logs.get(__name__)


@dataclass(slots=True)
class _Said:
    """What one server said last."""

    versions: dict[GroupVersion, Object] = field(default_factory=dict)
    etag: str = ""
    current: bool = False  # whether it said so when it was asked last
    v3: dict[str, Object] = field(default_factory=dict)
    v2: bytes = b""
    v2_etag: str = ""


class Documents:
    """Run :meth:`run` for as long as the server lives."""

    def __init__(self, services: APIServices, backends: Backends, clock: Clock) -> None:
        self._services, self._backends, self._clock = services, backends, clock
        self._said: dict[ServiceReference, _Said] = {}
        self._asked: dict[ServiceReference, frozenset[Registered]] = {}
        self.generation = 0
        self.versions: Mapping[GroupVersion, Object] = {}
        self.v3: Mapping[GroupVersion, Object] = {}
        """Entries of the index of OpenAPI v3, of those that have one."""
        self.v2: Mapping[str, bytes] = {}
        """OpenAPI v2 by the name of the APIService, JSON."""
        self._changed = asyncio.Event()
        services.on_change(self._changed.set)

    async def run(self) -> None:
        pauses = Backoff(_FIRST_RETRY, REFRESH_SECONDS, jitter=0.0, reset_after=math.inf)
        due = self._clock.monotonic()
        while True:
            self._changed.clear()
            now = self._clock.monotonic()
            if not await self.refresh(everything=now >= due):
                due = now + pauses.step()
            elif now >= due:
                pauses.reset()
                due = now + REFRESH_SECONDS
            with contextlib.suppress(TimeoutError):
                async with timeout(self._clock, max(due - self._clock.monotonic(), 0)):
                    await self._changed.wait()

    async def refresh(self, *, everything: bool) -> bool:
        """Ask those whose APIServices changed, or all. False when one that is available did not answer."""
        behind: dict[ServiceReference, list[Registered]] = {}
        for one in self._services.remote.values():
            assert one.service is not None
            behind.setdefault(one.service, []).append(one)
        for gone in self._said.keys() - behind:
            del self._said[gone]
            self._asked.pop(gone, None)
        asked = {
            service: found for service, found in behind.items() if everything or self._asked.get(service) != frozenset(found)
        }
        self._asked.update({service: frozenset(found) for service, found in asked.items()})
        answers = await asyncio.gather(*(self._discover(service, found) for service, found in asked.items()))
        self._publish(behind)
        answers += await asyncio.gather(*(self._describe(service, found) for service, found in asked.items()))
        if asked:
            self._publish(behind)
        return all(answers)

    def _publish(self, behind: Mapping[ServiceReference, list[Registered]]) -> None:
        versions: dict[GroupVersion, Object] = {}
        v3: dict[GroupVersion, Object] = {}
        v2: dict[str, bytes] = {}
        for service, found in behind.items():
            said = self._said.get(service, _Said())
            for one in found:
                fresh = "Current" if said.current and one.available else "Stale"
                entry = said.versions.get(one.version, {"version": one.version.version, "resources": []})
                versions[one.version] = {**entry, "freshness": fresh}
                if (described := said.v3.get(one.path.removeprefix("/"))) is not None:
                    v3[one.version] = described
                if said.v2:
                    v2[one.name] = said.v2
        if (versions, v3, v2) != (self.versions, self.v3, self.v2):
            self.versions, self.v3, self.v2 = versions, v3, v2
            self.generation += 1

    async def _discover(self, service: ServiceReference, found: list[Registered]) -> bool:
        said = self._said.setdefault(service, _Said())
        available = [one for one in found if one.available]
        said.current = False
        if not available:
            return True
        try:
            async with timeout(self._clock, _DISCOVERY_SECONDS):
                backend = await self._backends.of(available[0])
                headers = [("Accept", ACCEPT), *([("If-None-Match", said.etag)] if said.etag else [])]
                answer = await self._backends.get(backend, "/apis", AVAILABILITY, headers, _LIMIT)
                if answer.status == 304 and said.etag:
                    said.current = True
                    return True
                versions = versions_of(answer.body) if answer.status == 200 else None
                etag = answer.etag if versions is not None else ""
                if versions is None:
                    versions = await self._list(backend, available)
        except (ResolveError, UnreachableError, ValueError, TimeoutError) as problem:
            _log.warning("Cannot fetch the discovery of an extension server", service=service.server_name, err=problem)
            return False
        said.versions, said.etag, said.current = versions, etag, True
        return True

    async def _list(self, backend: Backend, found: list[Registered]) -> dict[GroupVersion, Object]:
        """Of a server that has no document of everything: one list after the other. Raises UnreachableError."""
        versions = {}
        for one in found:
            answer = await self._backends.get(backend, one.path, AVAILABILITY, [("Accept", _JSON)], _LIMIT)
            version = version_of(answer.body, one.version) if answer.status == 200 else None
            if version is None:
                raise UnreachableError(f"failed to download discovery for {one.path}: ResponseCode: {answer.status}")
            versions[one.version] = version
        return versions

    async def _describe(self, service: ServiceReference, found: list[Registered]) -> bool:
        said = self._said.get(service)
        available = [one for one in found if one.available]
        if said is None or not available:
            return True
        try:
            async with timeout(self._clock, _OPENAPI_SECONDS):
                backend = await self._backends.of(available[0])
                index = await self._backends.get(backend, "/openapi/v3", OPENAPI, [("Accept", _JSON)], _LIMIT)
                said.v3 = _index(index.body) if index.status == 200 else {}
                headers = [("Accept", _JSON), *([("If-None-Match", said.v2_etag)] if said.v2_etag else [])]
                whole = await self._backends.get(backend, "/openapi/v2", OPENAPI, headers, _LIMIT)
        except (ResolveError, UnreachableError, ValueError, TimeoutError) as problem:
            _log.warning("Cannot fetch the description of an extension server", service=service.server_name, err=problem)
            return False
        if whole.status == 200:
            said.v2, said.v2_etag = whole.body, whole.etag
        elif whole.status != 304:
            said.v2, said.v2_etag = b"", ""
        return True


def _index(body: bytes) -> dict[str, Object]:
    """The paths of an OpenAPI v3 index that say where they lead."""
    found = orjson.loads(body)
    paths = found.get("paths") if isinstance(found, dict) else None
    if not isinstance(paths, dict):
        return {}
    return {path: entry for path, entry in paths.items() if isinstance(entry, dict) and entry.get("serverRelativeURL")}
