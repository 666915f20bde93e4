"""Has the cache seen what we wrote? Acting on a cache that has not would write the same twice, or lose a race against oneself.

A controller notes every object it wrote and asks before its next pass over the same key. What never shows up (deleted at
once by somebody else) stops counting after a few seconds.
"""

from collections.abc import Mapping
from typing import Any

from apimachinery.meta import name_of, namespace_of, resource_version
from client.lister import Lister
from component.clock import Clock

_LAPSE_SECONDS = 5.0
PAUSE_SECONDS = 0.05
"""How long to wait for the cache before looking again."""


class Written:
    """Objects written per key: name > (resourceVersion, when)."""

    def __init__(self, cache: Lister, clock: Clock) -> None:
        self._cache, self._clock = cache, clock
        self._pending: dict[str, dict[tuple[str, str], tuple[int, float]]] = {}

    def note(self, key: str, obj: Mapping[str, Any]) -> None:
        version = resource_version(obj)
        if version.isdecimal():
            where = (namespace_of(obj), name_of(obj))
            self._pending.setdefault(key, {})[where] = (int(version), self._clock.monotonic())

    def forget(self, key: str, obj: Mapping[str, Any]) -> None:
        """It was deleted."""
        self._pending.get(key, {}).pop((namespace_of(obj), name_of(obj)), None)

    def seen(self, key: str) -> bool:
        """Whether the cache holds everything noted, in that version or a later one."""
        pending = self._pending.get(key)
        if not pending:
            return True
        now = self._clock.monotonic()
        for where, (version, since) in list(pending.items()):
            held = self._cache.get(where[1], where[0])
            if (held is not None and int(resource_version(held) or 0) >= version) or now - since > _LAPSE_SECONDS:
                del pending[where]
        if not pending:
            del self._pending[key]
            return True
        return False
