"""Leases for keys that expire (events), one shared by many keys as upstream does it. Used by ``backend``.

A lease for each event would cost etcd more than the events: a lease is taken again for ``reuse`` seconds, or 1,000 keys,
and is granted longer by as much, so that no key goes before its time. Follows k8s.io/apiserver
``storage/etcd3/lease_manager.go``.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

MAX_KEYS = 1000
_SHARE = 0.05  # of the time to live: a short one is not stretched much


@dataclass(slots=True)
class _Lease:
    number: int
    expires: float
    keys: int


Grant = Callable[[int], Awaitable[int]]
"""``await grant(seconds)`` gives the number of a new lease."""


class Leases:
    def __init__(self, grant: Grant, reuse: int, now: Callable[[], float]) -> None:
        self._grant, self._reuse, self._now = grant, reuse, now
        self._held: dict[int, _Lease] = {}  # by time to live
        self._granting = asyncio.Lock()

    async def get(self, ttl: int) -> int:
        """A lease that lives for ``ttl`` seconds at least."""
        async with self._granting:  # a crowd of writers needs one lease, not one each
            held, now = self._held.get(ttl), self._now()
            stretch = int(min(self._reuse, ttl * _SHARE))
            if held is not None and held.expires - now >= ttl and held.keys < MAX_KEYS:
                held.keys += 1
                return held.number
            number = await self._grant(ttl + stretch)
            self._held[ttl] = _Lease(number, now + ttl + stretch, 1)
            return number

    def forget(self, number: int) -> None:
        """etcd does not know it: it was revoked, or the clock ran away."""
        self._held = {ttl: lease for ttl, lease in self._held.items() if lease.number != number}
