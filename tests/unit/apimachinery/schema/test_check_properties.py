"""Laws of checking and normalising, for every kind and for arbitrary JSON."""

import copy
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apimachinery import schema
from apimachinery.gvk import GroupVersionKind
from apimachinery.schema import check
from tests.support.samples import sample

SCHEMAS = schema.load()
POD = SCHEMAS.of(GroupVersionKind("", "v1", "Pod"))

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize("gvk", SCHEMAS.kinds(), ids="/".join)
def test_samples_of_every_kind_are_normal_and_stay_as_they_are(gvk: GroupVersionKind) -> None:
    struct = SCHEMAS.of(gvk)
    obj = sample(struct, random.Random(str(gvk)))
    before = copy.deepcopy(obj)
    assert check.fits(obj, struct)
    assert check._walk(obj, struct, change=True) == check.Findings(), "the quick and the slow way disagree"
    assert obj == before


@st.composite
def damaged_pods(draw: st.DrawFn) -> Any:
    """A pod in which one value somewhere is replaced by arbitrary JSON."""
    pod: Any = sample(POD, random.Random(draw(st.integers(0, 50))), density=0.3)
    here = pod
    while isinstance(here, dict | list) and here:
        key = draw(st.sampled_from(sorted(here))) if isinstance(here, dict) else draw(st.integers(0, len(here) - 1))
        if not isinstance(here[key], dict | list) or not here[key] or draw(st.booleans()):
            here[key] = draw(JSON)
            break
        here = here[key]
    return pod


@given(damaged_pods())
@settings(max_examples=300, deadline=None)
def test_the_quick_and_the_slow_way_agree(pod: Any) -> None:
    quick = check.fits(pod, POD)
    normal = copy.deepcopy(pod)
    findings = check._walk(normal, POD, change=True)
    assert quick == (normal == pod and findings == check.Findings())


@given(damaged_pods())
@settings(max_examples=200, deadline=None)
def test_what_was_normalised_is_normal(pod: Any) -> None:
    findings = check.normalize(pod, POD)
    if not findings.type_errors:
        assert check.normalize(pod, POD).unknown == []
        before = copy.deepcopy(pod)
        check.normalize(pod, POD)
        assert pod == before


@given(damaged_pods())
@settings(deadline=None)
def test_looking_changes_nothing(pod: Any) -> None:
    before = copy.deepcopy(pod)
    check.type_errors(pod, POD)
    check.unknown_fields(pod, POD)
    assert pod == before


@given(JSON)
@settings(deadline=None)
def test_arbitrary_json_is_judged_not_feared(value: Any) -> None:
    check.normalize(value, POD)
