"""Upstream's published cases, ``replica_calculator_test.go``, in the order of its file, and what holds for every figure."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.controllers.horizontalpodautoscaler import calculator
from controlplane.controllers.horizontalpodautoscaler.calculator import MOST, Proposal, Tolerances
from controlplane.controllers.horizontalpodautoscaler.pods import Groups

NORMAL = Tolerances()


def case(ready: int, unready: str = "", missing: str = "", ignored: str = "", **figures: int) -> tuple[Groups, dict[str, int]]:
    return Groups(ready, set(unready), set(missing), set(ignored)), figures


@pytest.mark.parametrize(
    ("current", "given", "target", "wanted", "percentage", "average"),
    [
        pytest.param(3, case(3, a=300, b=500, c=700), 30, 5, 50, 500, id="scale-up"),
        pytest.param(3, case(2, unready="a", a=300, b=500, c=700), 30, 4, 60, 600, id="scale-up-unready-less"),
        pytest.param(3, case(1, unready="bc", a=400, b=500, c=700), 40, 3, 40, 400, id="scale-up-unready-not-at-all"),
        pytest.param(2, case(2, ignored="cd", a=500, b=700), 30, 4, 60, 600, id="scale-up-past-failed-pods"),
        pytest.param(5, case(5, a=100, b=300, c=500, d=250, e=250), 50, 3, 28, 280, id="scale-down"),
        pytest.param(5, case(3, ignored="de", a=100, b=300, c=500, d=250, e=250), 50, 2, 30, 300, id="past-deleted-pods"),
        pytest.param(4, case(2, missing="cd", a=400, b=95), 100, 3, 24, 247, id="missing"),
        pytest.param(2, case(1, missing="b", a=1000), 100, 2, 100, 1000, id="missing-at-the-target"),
        pytest.param(2, case(1, missing="b", a=1900), 100, 2, 190, 1900, id="missing-above"),
        pytest.param(2, case(1, missing="b", a=600), 100, 2, 60, 600, id="missing-below"),
        pytest.param(3, case(1, unready="a", missing="c", a=100, b=450), 50, 3, 45, 450, id="missing-and-unready"),
        pytest.param(3, case(1, unready="a", missing="c", a=100, b=2000), 50, 4, 200, 2000, id="missing-and-unready-up"),
        pytest.param(4, case(2, unready="a", missing="d", a=100, b=100, c=100), 50, 3, 10, 100, id="missing-and-unready-down"),
        pytest.param(2, case(1, missing="b", a=1000), 150, 2, 100, 1000, id="missing-under-a-target-above-the-request"),
    ],
)
def test_utilization(
    current: int, given: tuple[Groups, dict[str, int]], target: int, wanted: int, percentage: int, average: int
) -> None:
    groups, figures = given
    requests = dict.fromkeys("abcde", 1000)
    found = calculator.utilization(current, groups, figures, requests, target, NORMAL)
    assert found == Proposal(wanted, average, percentage)


@pytest.mark.parametrize(
    ("figures", "tolerances", "wanted"),
    [
        pytest.param({"a": 1010, "b": 1030, "c": 1020}, NORMAL, 3, id="within"),
        pytest.param({"a": 1010, "b": 1030, "c": 1020}, Tolerances(up=0.01), 4, id="a-smaller-one-up"),
        pytest.param({"a": 1010, "b": 1030, "c": 1020}, Tolerances(down=0.0), 3, id="a-smaller-one-down-does-not-matter"),
        pytest.param({"a": 600, "b": 600, "c": 600}, NORMAL, 2, id="beyond"),
        pytest.param({"a": 600, "b": 600, "c": 600}, Tolerances(down=0.5), 3, id="a-larger-one-down"),
    ],
)
def test_tolerance(figures: dict[str, int], tolerances: Tolerances, wanted: int) -> None:
    requests = {"a": 900, "b": 1000, "c": 1100}
    assert calculator.utilization(3, Groups(3), figures, requests, 100, tolerances).replicas == wanted


@pytest.mark.parametrize(
    ("current", "given", "target", "wanted", "average"),
    [
        pytest.param(3, case(3, a=20000, b=10000, c=30000), 15000, 4, 20000, id="scale-up"),
        pytest.param(3, case(3, a=50000, b=10000, c=30000), 15000, 6, 30000, id="scale-up-far"),
        pytest.param(5, case(5, **dict.fromkeys("abcde", 12000)), 20000, 3, 12000, id="scale-down"),
        pytest.param(3, case(3, a=20000, b=21000, c=21000), 20000, 3, 20666, id="within-tolerance"),
        pytest.param(3, case(2, missing="c", a=10000, b=10000), 20000, 2, 10000, id="missing"),
        pytest.param(4, case(3, missing="d", a=0, b=0, c=0), 1000, 1, 0, id="missing-while-idle"),
        pytest.param(2, case(2, a=-1500, b=0), 1000, -1, -750, id="below-nothing"),
    ],
)
def test_average(current: int, given: tuple[Groups, dict[str, int]], target: int, wanted: int, average: int) -> None:
    groups, figures = given
    assert calculator.average(current, groups, figures, target, NORMAL) == Proposal(wanted, average)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: calculator.average(1, Groups(), {}, 1, NORMAL), "did not receive metrics for targeted pods"),
        (lambda: calculator.average(1, Groups(unready={"a"}), {"a": 1}, 1, NORMAL), "pods might be unready"),
        (lambda: calculator.utilization(1, Groups(1), {"a": 1}, {"a": 0}, 1, NORMAL), "no metrics returned matched known pods"),
        (lambda: calculator.utilization(1, Groups(1), {"a": 1}, {"b": 9}, 1, NORMAL), "no metrics returned matched known pods"),
    ],
)
def test_nothing_to_go_by(call: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        call()


@pytest.mark.parametrize(
    ("current", "ready", "used", "target", "wanted"),
    [
        pytest.param(3, 3, 20000, 15000, 4, id="scale-up"),
        pytest.param(3, 3, 30000, 15000, 6, id="scale-up-far"),
        pytest.param(5, 5, 12000, 20000, 3, id="scale-down"),
        pytest.param(3, 3, 20666, 20000, 3, id="within-tolerance"),
        pytest.param(4, 2, 200, 100, 4, id="only-ready-pods-multiply"),
        pytest.param(0, 0, 0, 100, 0, id="idle-at-zero"),
        pytest.param(0, 0, 1, 100, 1, id="from-zero"),
        pytest.param(0, 0, 250, 100, 3, id="from-zero-to-several"),
        pytest.param(1, 1, 2**63 - 1, 1, MOST, id="more-than-a-size-can-be"),
    ],
)
def test_total(current: int, ready: int, used: int, target: int, wanted: int) -> None:
    assert calculator.total(current, lambda: ready, used, target, NORMAL) == Proposal(wanted, used)


@pytest.mark.parametrize(
    ("running", "used", "target", "wanted", "average"),
    [
        pytest.param(3, 8600, 2150, 4, 2867, id="scale-up"),
        pytest.param(5, 8600, 3000, 3, 1720, id="scale-down"),
        pytest.param(3, 9000, 3000, 3, 3000, id="at-the-target"),
        pytest.param(0, 0, 100, 0, 0, id="idle-at-zero"),
        pytest.param(0, 150, 100, 2, 150, id="from-zero"),
        pytest.param(1, 2**63 - 1, 1, MOST, 2**63 - 1, id="more-than-a-size-can-be"),
    ],
)
def test_shared(running: int, used: int, target: int, wanted: int, average: int) -> None:
    assert calculator.shared(running, used, target, NORMAL) == Proposal(wanted, average)


def test_series_are_added_up_to_what_fits() -> None:
    assert calculator.summed([2**62, 2**62, 7]) == 2**63 - 1


FIGURES = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 10**7), min_size=1)


@given(current=st.integers(1, 100), figures=FIGURES, more=st.integers(0, 10**7), target=st.integers(1, 10**6))
def test_more_use_never_asks_for_less(current: int, figures: dict[str, int], more: int, target: int) -> None:
    def wanted(values: dict[str, int]) -> int:
        return calculator.average(len(values), Groups(len(values)), values, target, NORMAL).replicas

    assert wanted({name: value + more for name, value in figures.items()}) >= wanted(figures)


@given(figures=FIGURES, unready=st.sets(st.sampled_from("abcdefgh")), missing=st.sets(st.sampled_from("ijkl")), data=st.data())
def test_pods_that_say_nothing_never_push_further(
    figures: dict[str, int], unready: set[str], missing: set[str], data: st.DataObject
) -> None:
    """Neither up nor down beyond what the others want by themselves, and never against their direction."""
    target, current = data.draw(st.integers(1000, 10**6)), data.draw(st.integers(1, 30))
    speaking = {name: value for name, value in figures.items() if name not in unready}
    if not speaking:
        return
    groups = Groups(len(speaking), unready, missing)
    found = calculator.average(current, groups, figures, target, Tolerances(0, 0)).replicas
    mean = sum(speaking.values()) // len(speaking)
    alone = calculator.bounded(mean / target * len(speaking))
    if mean > target:
        assert min(current, alone) <= found <= max(current, alone + 1)  # averages are cut to whole thousandths: once more, or not
    if mean < target and missing:
        assert min(current, alone) <= found <= max(current, alone)
