"""Kinds to the resources that hold them, by discovery: for what an autoscaler scales, and for what its metrics describe.

``scale`` and ``figures`` ask. Answers are kept for half a minute, as upstream's REST mapper; what was not found is asked for
again each time, for a definition may have just been made.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersionResource
from client.rest import Client
from component.clock import Clock

_KEPT_SECONDS = 30.0
_JSON = {"Accept": "application/json"}


@dataclass(frozen=True, slots=True)
class Match:
    """A resource that holds the kind, in one version; ``scales``: it has a scale subresource."""

    resource: GroupVersionResource
    scales: bool


class NoMatchError(ValueError):
    """The server has no such kind."""


class Mapper:
    """All methods raise StatusError or ConnectionError when the server cannot be asked."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._kept: dict[tuple[str, str], tuple[float, Sequence[Match]]] = {}

    async def mappings(self, group: str, kind: str) -> Sequence[Match]:
        """Preferred version first. Raises NoMatchError."""
        now = self._clock.monotonic()
        kept = self._kept.get((group, kind))
        if kept is not None and kept[0] > now:
            return kept[1]
        found = [each for version in await self.versions(group) for each in await self._of(group, version, kind)]
        if not found:
            self._kept.pop((group, kind), None)
            raise NoMatchError(f'no matches for kind "{kind}" in group "{group}"')
        self._kept = {key: value for key, value in self._kept.items() if value[0] > now}
        self._kept[group, kind] = (now + _KEPT_SECONDS, found)
        return found

    async def versions(self, group: str) -> list[str]:
        """The served versions of a group, preferred first; none for a group that is not served."""
        if not group:
            return ["v1"]
        try:
            answer = orjson.loads(await self._client.raw("GET", f"/apis/{group}", headers=_JSON))
        except StatusError as error:
            if error.code != 404:
                raise
            return []
        preferred = (answer.get("preferredVersion") or {}).get("version")
        listed = [str(each.get("version")) for each in answer.get("versions") or ()]
        return sorted(listed, key=lambda version: version != preferred)  # stable: else as the server orders them

    async def _of(self, group: str, version: str, kind: str) -> list[Match]:
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        try:
            answer = orjson.loads(await self._client.raw("GET", path, headers=_JSON))
        except StatusError as error:
            if error.code != 404:
                raise
            return []
        listed: list[dict[str, Any]] = answer.get("resources") or []
        names = {each.get("name") for each in listed}
        return [
            Match(GroupVersionResource(group, version, each["name"]), f"{each['name']}/scale" in names)
            for each in listed
            if each.get("kind") == kind and "/" not in each["name"]
        ]
