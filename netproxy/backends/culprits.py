"""Finding the service ports whose rules the kernel refuses, so that one of them does not keep all others from being served.

A Service may need what this kernel lacks (SCTP, ``xt_recent``). Called by a backend when writing everything has failed.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from netproxy.trackers.services import PortName

_MAX_REFUSED: Final = 20


async def culprits(ports: Sequence[PortName], accepted: Callable[[Sequence[PortName]], Awaitable[bool]]) -> list[PortName]:
    """Those that are not accepted, found by halving. Empty when the trouble is not with single ports: nothing can be written
    at all, everything can by now, or more than twenty ports are refused."""
    if not await accepted([]):
        return []
    found: list[PortName] = []
    waiting: list[Sequence[PortName]] = [ports]
    while waiting:
        part = waiting.pop()
        if await accepted(part):
            continue
        if len(part) > 1:
            waiting += [part[: len(part) // 2], part[len(part) // 2 :]]
            continue
        found += part
        if len(found) > _MAX_REFUSED:
            return []
    return found
