"""Thresholds are read as upstream reads them, and refused by name."""

import re

import pytest

from node.kubelet.eviction import thresholds as t
from node.kubelet.eviction.thresholds import Amount, ThresholdError, parse


def test_defaults_are_upstreams() -> None:
    found = {each.signal: each for each in parse(t.DEFAULT_HARD)}

    assert found[t.MEMORY].amount == Amount(100 << 20)
    assert found[t.NODEFS].amount == Amount(share=0.1)
    assert found[t.IMAGEFS].amount.of(1000) == 150
    assert found[t.ALLOCATABLE_MEMORY].amount == found[t.MEMORY].amount
    assert all(each.hard for each in found.values())


@pytest.mark.parametrize("text", ["0%", "100%"])
def test_a_whole_share_switches_a_threshold_off(text: str) -> None:
    assert parse({t.NODEFS: text}) == ()


def test_soft_thresholds_have_their_grace_and_least_reclaim() -> None:
    (soft,) = parse({}, {t.NODEFS: "20%"}, {t.NODEFS: "1m30s"}, {t.NODEFS: "1Gi"})

    assert (soft.grace, soft.hard) == (90.0, False)
    assert soft.reclaim.of(0) == 1 << 30


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({"memory.avail": "1Gi"},), "unsupported eviction signal memory.avail"),
        (({}, {"memory.available": "1Gi"}), "grace period must be specified for the soft eviction threshold memory.available"),
        (({}, {"memory.available": "1Gi"}, {"memory.available": "-1s"}), "must be a positive value"),
        (({"memory.available": "-5%"},), "must be >= 0%"),
        (({"memory.available": "105%"},), "must be <= 100%"),
        (({"memory.available": "many"},), "memory.available: "),
        (({"memory.available": "x%"},), "is not a percentage"),
        (({"memory.available": "-1Gi"},), "must be positive"),
        (({}, {}, {}, {"pids": "1"}), "unsupported eviction signal pids"),
    ],
)
def test_what_cannot_be_is_refused_by_name(arguments: tuple[dict[str, str], ...], message: str) -> None:
    with pytest.raises(ThresholdError, match=re.escape(message)):
        parse(*arguments)


def test_what_hard_thresholds_keep_is_not_promised_to_pods() -> None:
    found = parse({t.MEMORY: "100Mi", t.NODEFS: "10%", t.IMAGEFS: "15%"}, {t.MEMORY: "1Gi"}, {t.MEMORY: "1m"})

    assert t.reserved(found, {"memory": 8 << 30, "ephemeral-storage": 1000}) == {"memory": 100 << 20, "ephemeral-storage": 100}


def test_numbers_are_shown_as_quantities() -> None:
    assert t.shown(t.MEMORY, 100 << 20) == "100Mi"
    assert t.shown(t.NODEFS_INODES, 5000) == "5k"
    assert t.shown(t.PID, 1023) == "1023"
