"""How many seats a request takes, guessed before it runs. Pure; called by ``filters.priority_and_fairness``.

Follows upstream's ``pkg/util/flowcontrol/request`` of v1.36: a list costs by the size of what it will hold in memory, a write
by the watches that are told of it.
"""

from collections.abc import Mapping
from math import ceil

from controlplane.apiserver.flowcontrol.queueset import ONE_SEAT, Work
from controlplane.apiserver.wire.info import RequestInfo, is_true

MAX_LIST_SEATS = 100
MAX_WRITE_SEATS = 10
BYTES_PER_SEAT = 100_000
CACHED_BYTES = 1_000_000  # a list from the cache is sent in pieces and never holds more at once
WATCHES_PER_SEAT = 10
EVENT_SECONDS = 0.005  # that telling one seat's worth of watches takes
_LEVEL_SHARE = 0.15  # of its level that one request may take

_WIDTHS = {seats: Work(seats) for seats in range(2, MAX_LIST_SEATS + 1)} | {1: ONE_SEAT}


def most_seats(nominal: int, hand: int) -> int:
    """What one request may take of a level with queues."""
    return max(1, min(ceil(_LEVEL_SHARE * nominal), nominal // hand))


def of_list(info: RequestInfo, query: Mapping[str, str], stats: tuple[int, int] | None, most: int) -> Work:
    """``stats`` is how many objects the resource has, and how many bytes they are together; None for a resource of others'."""
    if info.verb == "watch" and not _sends_state(query):
        return ONE_SEAT
    if stats is None:
        return ONE_SEAT
    count, size = stats
    limit = _limit(query.get("limit"))
    if info.name:
        loaded = 1
    elif info.verb == "watch" or _from_cache(query):
        loaded = min(count, limit)
    elif query.get("fieldSelector") or query.get("labelSelector"):
        loaded = max(min(count, limit), count // 2)
    else:
        loaded = min(count, limit)
    held = loaded * (size // count) if count else 0
    if info.verb == "watch" or _from_cache(query):
        held = min(held, CACHED_BYTES)
    return _WIDTHS[min(max(ceil(held / BYTES_PER_SEAT), 1), max(min(most, MAX_LIST_SEATS), 1))]


def of_write(info: RequestInfo, watches: int, most: int) -> Work:
    """``watches`` is how many are interested in what is written."""
    if watches < WATCHES_PER_SEAT or (info.resource == "serviceaccounts" and info.subresource == "token"):
        return ONE_SEAT
    seats = ceil(watches / WATCHES_PER_SEAT)
    final = min(seats, most, MAX_WRITE_SEATS)
    return Work(1, final, seats * EVENT_SECONDS / final)


def _sends_state(query: Mapping[str, str]) -> bool:
    """Whether a watch begins with everything there is."""
    return is_true(query.get("sendInitialEvents")) or query.get("resourceVersion", "") in ("", "0")


def _from_cache(query: Mapping[str, str]) -> bool:
    """Whether a list is answered from the present state, not from a kept or stored earlier one."""
    match = query.get("resourceVersionMatch", "")
    if match:
        return match != "Exact"
    if query.get("continue"):
        return False
    return not (_limit(query.get("limit")) < _NO_LIMIT and query.get("resourceVersion", "") not in ("", "0"))


_NO_LIMIT = 1 << 62


def _limit(text: str | None) -> int:
    """What is no number is refused later on; here it says nothing."""
    if not text or not text.isascii() or not text.isdecimal() or len(text) > 18:
        return _NO_LIMIT
    return int(text) or _NO_LIMIT
