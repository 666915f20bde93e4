"""How wide requests are, how long refused clients wait, and which watches a write concerns."""

import pytest

from controlplane.apiserver.flowcontrol.retry_after import MAX_SECONDS, RetryAfter
from controlplane.apiserver.flowcontrol.watches import WatchCounts
from controlplane.apiserver.flowcontrol.width import most_seats, of_list, of_write
from controlplane.apiserver.wire.info import parse

PODS = "/api/v1/namespaces/a/pods"


@pytest.mark.parametrize(
    ("query", "stats", "most", "seats"),
    [
        ({}, (0, 0), 36, 1),
        ({}, (10, 30_000), 36, 1),
        ({}, (100, 300_000), 36, 3),
        ({}, (1000, 3_000_000), 36, 10),  # from the cache: a megabyte at most
        ({}, (1000, 3_000_000), 7, 7),
        ({}, None, 36, 1),  # another server's
        ({"limit": "100"}, (1000, 3_000_000), 36, 3),
        ({"limit": "nonsense"}, (1000, 3_000_000), 36, 10),
        ({"limit": "0"}, (1000, 3_000_000), 36, 10),
        ({"fieldSelector": "metadata.name=one"}, (1000, 3_000_000), 36, 1),
        ({"limit": "500", "continue": "x"}, (2000, 6_000_000), 36, 15),  # from a kept state: all of it is held
        ({"limit": "500", "continue": "x", "labelSelector": "a=b"}, (2000, 6_000_000), 36, 30),
        ({"resourceVersion": "5", "resourceVersionMatch": "Exact"}, (1000, 3_000_000), 100, 30),
        ({"resourceVersion": "5", "resourceVersionMatch": "NotOlderThan", "limit": "500"}, (1000, 3_000_000), 36, 10),
        ({"resourceVersion": "5", "limit": "500"}, (1000, 3_000_000), 36, 15),
        ({"watch": "1"}, (1000, 3_000_000), 36, 10),
        ({"watch": "1", "resourceVersion": "7"}, (1000, 3_000_000), 36, 1),
        ({"watch": "1", "resourceVersion": "7", "sendInitialEvents": "true"}, (1000, 3_000_000), 36, 10),
    ],
)
def test_lists_and_watches(query: dict[str, str], stats: tuple[int, int] | None, most: int, seats: int) -> None:
    assert of_list(parse("GET", PODS, query), query, stats, most).initial == seats


@pytest.mark.parametrize(
    ("watches", "most", "final", "extra"),
    [(9, 36, 0, 0.0), (10, 36, 1, 0.005), (95, 36, 10, 0.005), (1000, 36, 10, 0.05), (1000, 5, 5, 0.1)],
)
def test_writes(watches: int, most: int, final: int, extra: float) -> None:
    work = of_write(parse("PUT", f"{PODS}/x", {}), watches, most)
    assert (work.initial, work.final) == (1, final)
    assert work.extra == pytest.approx(extra)


def test_a_token_is_no_event() -> None:
    assert of_write(parse("POST", "/api/v1/namespaces/a/serviceaccounts/x/token", {}), 1000, 36).final == 0


def test_upstreams_default_levels() -> None:
    assert [most_seats(nominal, 6) for nominal in (74, 98, 245, 49, 3)] == [12, 15, 37, 8, 1]


def test_watches_concern_writes_below_them() -> None:
    counts = WatchCounts()

    def watch(path: str, selector: str = "") -> object:
        query = {"watch": "1", "fieldSelector": selector}
        return counts.opened(parse("GET", path, query), query)

    everywhere, here = watch("/api/v1/pods"), watch(PODS)
    one, node = watch(PODS, "metadata.name=x"), watch("/api/v1/pods", "spec.nodeName=n1")
    watch("/api/v1/namespaces/b/pods")
    assert counts.interested(parse("PUT", f"{PODS}/x", {})) == 3
    assert counts.interested(parse("PUT", f"{PODS}/y", {})) == 2
    assert counts.interested(parse("POST", "/api/v1/namespaces/c/pods", {})) == 1
    assert counts.interested(parse("PUT", "/api/v1/namespaces/a/secrets/x", {})) == 0
    assert node is None
    for where in (everywhere, here, one):
        counts.closed(where)  # type: ignore[arg-type]
    assert counts.interested(parse("PUT", f"{PODS}/x", {})) == 0


def test_the_wait_grows_under_pressure_and_shrinks_after_it() -> None:
    wait = RetryAfter()
    seen = []
    for second in range(100, 200):
        for _ in range(200):
            wait.note(second)
        seen.append(wait.seconds)
    assert seen[0] == 1
    assert seen == sorted(seen)
    assert seen[-1] == MAX_SECONDS
    for second in range(300, 420, 3):
        wait.note(second)  # few: less than one for each second of waiting
    assert wait.seconds == 1
