"""Which volume a claim gets."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apimachinery.objects import volumes
from tests.support.storage import make_claim, make_volume


def available(name: str, size: str = "1Gi", **more: Any) -> dict[str, Any]:
    return make_volume(name, size, phase="Available", **more)


@pytest.mark.parametrize(
    ("claim", "offered", "expected"),
    [
        pytest.param({}, [available("big", "9Gi"), available("fits", "2Gi"), available("small", "1Mi")], "fits", id="smallest"),
        pytest.param(
            {},
            [available("shared", accessModes=["ReadWriteOnce", "ReadWriteMany"]), available("own", "9Gi")],
            "own",
            id="fewest-modes-before-size",
        ),
        pytest.param({"accessModes": ["ReadWriteMany"]}, [available("own")], None, id="mode-missing"),
        pytest.param({"storage_class": "fast"}, [available("slow")], None, id="other-class"),
        pytest.param({"volumeMode": "Block"}, [available("files")], None, id="other-volume-mode"),
        pytest.param({}, [make_volume("new", phase="Pending")], None, id="not-available-yet"),
        pytest.param(
            {"selector": {"matchLabels": {"tier": "a"}}},
            [available("plain"), available("chosen", "5Gi", labels={"tier": "a"})],
            "chosen",
            id="selector",
        ),
        pytest.param({}, [available("free"), available("mine", "9Gi", claim=make_claim("c"))], "mine", id="reserved-first"),
        pytest.param({}, [available("theirs", claim=make_claim("other"))], None, id="reserved-for-another"),
        pytest.param({"uid": "2"}, [available("old", claim=make_claim("c", uid="1"))], None, id="reserved-for-its-predecessor"),
        pytest.param(
            {"volumeAttributesClassName": "gold"}, [available("plain")], None, id="other-attributes-class"
        ),
    ],
)  # fmt: skip
def test_the_best_volume(claim: dict[str, Any], offered: list[dict[str, Any]], expected: str | None) -> None:
    found = volumes.best_match(make_claim(**claim), offered)
    assert (found["metadata"]["name"] if found else None) == expected


def test_a_delayed_claim_gets_only_what_is_reserved_until_a_node_is_known() -> None:
    claim, near, far = make_claim(), available("near", "9Gi", node="a"), available("far", node="b")
    node = {"metadata": {"name": "a", "labels": {"kubernetes.io/hostname": "a"}}}
    assert volumes.best_match(claim, [near, far], delayed=True) is None
    assert volumes.best_match(claim, [near, far], delayed=True, node=node) is near
    assert volumes.best_match(claim, [near, far], node=node, taken=frozenset({"near"})) is None
    reserved = available("reserved", claim=claim)
    assert volumes.best_match(claim, [near, reserved], delayed=True) is reserved


def test_a_volume_on_its_way_out_is_nobodys() -> None:
    leaving = available("v")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert volumes.best_match(make_claim(), [leaving]) is None


@pytest.mark.parametrize(
    ("volume", "why"),
    [
        ({"size": "1Mi"}, "requested PV is too small"),
        ({"storage_class": "fast"}, "storageClassName does not match"),
        ({"volumeMode": "Block"}, "incompatible volumeMode"),
        ({"accessModes": ["ReadOnlyMany"]}, "incompatible accessMode"),
        ({}, ""),
    ],
)
def test_why_a_named_volume_does_not_do(volume: dict[str, Any], why: str) -> None:
    assert volumes.mismatch(make_volume(**volume), make_claim()) == why


def test_a_claim_whose_reserved_volume_is_elsewhere_gets_no_other() -> None:
    claim = make_claim()
    reserved, other = available("reserved", node="b", claim=claim), available("other", node="a")
    node = {"metadata": {"name": "a", "labels": {"kubernetes.io/hostname": "a"}}}
    assert volumes.best_match(claim, [other, reserved], node=node) is None


MODES = st.lists(st.sampled_from(["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"]), min_size=1, max_size=3, unique=True)
OFFERS = st.lists(
    st.builds(
        lambda size, modes, kind, phase, taken: (f"{size}Gi", modes, kind, phase, taken),
        st.integers(1, 4),
        MODES,
        st.sampled_from(["", "fast"]),
        st.sampled_from(["Available", "Available", "Bound"]),
        st.sampled_from([None, None, None, "c", "other"]),
    ),
    max_size=6,
)


@given(offers=OFFERS, size=st.integers(1, 4), modes=MODES, kind=st.sampled_from(["", "fast"]))
def test_what_is_chosen_does_and_nothing_that_does_is_closer(offers: list[Any], size: int, modes: list[str], kind: str) -> None:
    claim = make_claim("c", f"{size}Gi", storage_class=kind, accessModes=modes)
    offered = []
    for number, (amount, given_modes, given_kind, phase, taken) in enumerate(offers):
        more = {"claim": make_claim(taken)} if taken else {}
        offered.append(make_volume(f"v{number}", amount, storage_class=given_kind, phase=phase, accessModes=given_modes, **more))
    chosen = volumes.best_match(claim, offered)
    free = [each for each in offered if volumes.claim_ref(each) is None and each["status"]["phase"] == "Available"]
    fitting = [each for each in free if not volumes.mismatch(each, claim)]
    if chosen is None:
        assert not fitting
        return
    if volumes.claim_ref(chosen):
        assert volumes.is_for(chosen, claim)
        return
    assert chosen in fitting

    def excess(volume: dict[str, Any]) -> tuple[int, int]:
        return len(volumes.access_modes(volume)), volumes.capacity_bytes(volume)

    assert excess(chosen) == min(map(excess, fitting))
    assert volumes.best_match(claim, offered, taken=frozenset({chosen["metadata"]["name"]})) is not chosen
