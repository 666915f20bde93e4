"""Which devices are given: reused ones first, then aligned ones, then what the plugin likes; and what is said when none are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.kubelet.cm.device_manager.decide import Question, Split, UnavailableError, Wanted, choose, question, refuse, split
from node.kubelet.cm.device_manager.devices import Device, by_node

KNOWN = {name: Device(name, nodes=nodes) for name, nodes in {"a": (0,), "b": (0,), "c": (1,), "d": (0, 1), "e": ()}.items()}
ALL = frozenset(KNOWN)
NONE: frozenset[str] = frozenset()


def test_split() -> None:
    assert split(ALL, KNOWN, None) == Split(NONE, NONE, ALL)
    assert split(ALL, KNOWN, {1}) == Split(frozenset("cd"), frozenset("ab"), frozenset("e"))
    assert split(ALL, {name: Device(name) for name in KNOWN}, {1}) == Split(NONE, NONE, ALL)  # nobody says where it lies


@pytest.mark.parametrize(
    ("count", "reusable", "affinity", "preferred", "expected"),
    [
        pytest.param(2, "", None, "", "ab", id="in-order"),
        pytest.param(2, "", None, "ed", "de", id="preferred"),
        pytest.param(2, "", None, "zde", "de", id="preferred-but-not-there"),
        pytest.param(3, "", None, "e", "abe", id="preferred-too-few"),
        pytest.param(1, "", None, "edc", "e", id="preferred-too-many"),
        pytest.param(1, "", {1}, "a", "c", id="aligned-before-preferred"),
        pytest.param(1, "", {0}, "d", "d", id="preferred-among-aligned"),
        pytest.param(3, "", {1}, "b", "bcd", id="all-aligned-then-preferred"),
        pytest.param(4, "", {1}, "", "abcd", id="unaligned-before-anywhere"),
        pytest.param(2, "xy", None, "a", "xy", id="reused"),
        pytest.param(3, "xy", None, "", "axy", id="reused-and-more"),
        pytest.param(1, "xy", None, "", "x", id="reused-in-part"),
        pytest.param(5, "", {0}, "", "abcde", id="all"),
    ],
)
def test_choose(count: int, reusable: str, affinity: set[int] | None, preferred: str, expected: str) -> None:
    chosen = choose(Wanted("r", count, frozenset(reusable)), split(ALL, KNOWN, affinity), preferred)
    assert "".join(sorted(chosen)) == expected


def test_too_many() -> None:
    with pytest.raises(UnavailableError, match=r"requested number of devices unavailable for r. Requested: 6, Available: 5$"):
        choose(Wanted("r", 7, frozenset("x")), split(ALL, KNOWN, None))


def test_question() -> None:
    assert question(Wanted("r", 2), split(ALL, KNOWN, None)) == Question(ALL, NONE, 2)
    assert question(Wanted("r", 1, frozenset("x")), split(ALL, KNOWN, None)) is None
    assert question(Wanted("r", 1), split(ALL, KNOWN, {1})) == Question(frozenset("cd"), NONE, 1)
    assert question(Wanted("r", 2), split(ALL, KNOWN, {1})) is None  # just the aligned ones
    assert question(Wanted("r", 4, frozenset("x")), split(ALL, KNOWN, {1})) == Question(ALL | {"x"}, frozenset("xcd"), 4)


def test_refusals() -> None:
    assert refuse("r", None, NONE) == "cannot allocate unregistered device r"
    assert refuse("r", NONE, NONE) == "no healthy devices present; cannot allocate unhealthy devices r"
    gone = "previously allocated devices are no longer healthy; cannot allocate unhealthy devices r"
    assert refuse("r", {"a"}, frozenset("b")) == gone
    assert refuse("r", {"a", "b"}, frozenset("b")) == ""


ids = st.frozensets(st.sampled_from("abcdefgh"))


@given(st.integers(1, 8), ids, ids, st.none() | st.sets(st.integers(0, 2)), st.lists(st.sampled_from("abcdefghz")), st.data())
def test_always_as_many_as_wanted_and_only_free_ones(
    count: int,
    free: frozenset[str],
    reusable: frozenset[str],
    affinity: set[int] | None,
    preferred: list[str],
    data: st.DataObject,
) -> None:
    free -= reusable
    known = {name: Device(name, nodes=tuple(data.draw(st.sets(st.integers(0, 2))))) for name in sorted(free | reusable)}
    parts = split(free, known, affinity)
    assert parts.all == free
    assert len(parts.aligned) + len(parts.unaligned) + len(parts.anywhere) == len(free)
    try:
        chosen = choose(Wanted("r", count, reusable), parts, preferred)
    except UnavailableError:
        assert count > len(free) + min(count, len(reusable))
        return
    assert len(chosen) == count
    assert chosen <= free | reusable
    assert len(chosen & reusable) == min(count, len(reusable))
    taken = count - min(count, len(reusable))
    assert len(chosen & parts.aligned) == min(taken, len(parts.aligned))


def test_by_node() -> None:
    assert by_node("adez", KNOWN) == {-1: ("e", "z"), 0: ("a", "d"), 1: ("d",)}
