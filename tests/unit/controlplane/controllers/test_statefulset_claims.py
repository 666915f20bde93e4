"""Whom a claim of a StatefulSet goes with."""

from typing import Any

import pytest

from apimachinery.meta import owner_reference
from controlplane.controllers.statefulset.pods import goes_with_another, with_retention
from tests.support.storage import make_claim

POD = {"metadata": {"name": "db-2", "namespace": "default", "uid": "p"}}


def owner(replicas: int, deleted: str = "Retain", scaled: str = "Retain") -> dict[str, Any]:
    policy = {"whenDeleted": deleted, "whenScaled": scaled}
    spec = {"replicas": replicas, "persistentVolumeClaimRetentionPolicy": policy}
    return {"metadata": {"name": "db", "namespace": "default", "uid": "s"}, "spec": spec}


def claim(*owners: dict[str, Any]) -> dict[str, Any]:
    made = make_claim("data-db-2")
    if owners:
        made["metadata"]["ownerReferences"] = list(owners)
    return made


SET_OWNS, POD_OWNS = owner_reference(owner(3), "apps/v1", "StatefulSet"), owner_reference(POD, "v1", "Pod")


@pytest.mark.parametrize(
    ("of", "held", "expected"),
    [
        pytest.param(owner(3), [], [], id="retained"),
        pytest.param(owner(3), [SET_OWNS], [], id="retained-again"),
        pytest.param(owner(3, deleted="Delete"), [], ["s"], id="with-the-set"),
        pytest.param(owner(2, deleted="Delete"), [], ["s"], id="scaled-away-but-with-the-set"),
        pytest.param(owner(3, scaled="Delete"), [], [], id="not-scaled-away"),
        pytest.param(owner(2, scaled="Delete"), [], ["p"], id="scaled-away"),
        pytest.param(owner(2, "Delete", "Delete"), [SET_OWNS], ["p"], id="from-the-set-to-the-pod"),
        pytest.param(owner(3, "Delete", "Delete"), [POD_OWNS], ["s"], id="scaled-up-again"),
    ],
)
def test_owners(of: dict[str, Any], held: list[dict[str, Any]], expected: list[str]) -> None:
    before = claim(*held)
    after = with_retention(of, POD, before)
    assert [each["uid"] for each in after["metadata"].get("ownerReferences") or ()] == expected
    assert with_retention(of, POD, after) is after


def test_what_others_own_stays_as_it_is() -> None:
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "o"}
    kept = with_retention(owner(3, deleted="Delete"), POD, claim(theirs))
    assert [each["uid"] for each in kept["metadata"]["ownerReferences"]] == ["o", "s"]
    controlled = claim({**theirs, "controller": True})
    assert with_retention(owner(3, deleted="Delete"), POD, controlled) is controlled


def test_a_claim_that_goes_with_a_pod_is_not_for_its_successor() -> None:
    assert goes_with_another(claim(POD_OWNS), "db-2")
    assert not goes_with_another(claim(SET_OWNS), "db-2")
