from typing import Any

import pytest

from apimachinery.meta import Object
from controlplane.controllers.device_taint_rules import Reach, condition, evicts, reach

POD = {"metadata": {"name": "p", "namespace": "a", "uid": "1"}}
OTHER = {"metadata": {"name": "q", "namespace": "b", "uid": "2"}}
LAST = (
    "if the effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
)


def rule(effect: str, **selector: str) -> Object:
    spec = {"deviceSelector": selector, "taint": {"key": "k", "effect": effect}}
    return {"metadata": {"name": "r", "generation": 3}, "spec": spec}


@pytest.mark.parametrize(
    ("effect", "reached", "evicted", "status", "reason", "message"),
    [
        ("NoExecute", Reach(), 0, "False", "NotStarted", ""),
        ("NoExecute", Reach(pods=[POD]), 0, "True", "PodsPendingEviction", "1 pod needs to be evicted in 1 namespace."),
        (
            "NoExecute",
            Reach(pods=[POD, OTHER]),
            1,
            "True",
            "PodsPendingEviction",
            "2 pods need to be evicted in 2 different namespaces. 1 pod evicted since starting the controller.",
        ),
        ("NoExecute", Reach(), 2, "False", "Completed", "2 pods evicted since starting the controller."),
        ("NoSchedule", Reach(), 0, "False", "OtherEffect", "Eviction only happens for the NoExecute effect."),
        (
            "None",
            Reach(1, 2, [POD]),
            0,
            "False",
            "NoEffect",
            f"1 published device selected. 2 allocated devices selected. 1 pod would be evicted in 1 namespace {LAST}",
        ),
        (
            "None",
            Reach(0, 1),
            0,
            "False",
            "NoEffect",
            "0 published devices selected. 1 allocated device selected. "
            f"0 pods would be evicted in 0 different namespaces {LAST}",
        ),
    ],
)
def test_what_a_rule_tells(effect: str, reached: Reach, evicted: int, status: str, reason: str, message: str) -> None:
    found = condition(rule(effect), reached, evicted)
    assert (found["status"], found["reason"], found["message"]) == (status, reason, message)
    assert found["observedGeneration"] == 3


def claim(*results: dict[str, Any]) -> Object:
    return {"status": {"allocation": {"devices": {"results": [{"driver": "d", "pool": "p", **each} for each in results]}}}}


def test_reach() -> None:
    published = {"spec": {"driver": "d", "pool": {"name": "p"}, "devices": [{"name": "one"}, {"name": "two"}]}}
    tolerant = claim({"device": "one", "tolerations": [{"operator": "Exists"}]})
    held = [(claim({"device": "one"}, {"device": "two"}), [POD]), (claim({"device": "two"}), [OTHER]), (tolerant, [OTHER])]
    found = reach(rule("NoExecute", device="one"), [published], held)
    assert (found.published, found.allocated, list(found.pods)) == (1, 2, [POD])
    everything = reach(rule("None"), [published], held)
    assert (everything.published, everything.allocated, len(everything.pods)) == (2, 4, 2)
    nothing = rule("NoExecute")
    del nothing["spec"]["deviceSelector"]
    assert reach(nothing, [published], held) == Reach()


def test_what_is_tolerated_for_a_while_goes_in_the_end() -> None:
    for_a_while = {"tolerations": [{"operator": "Exists", "tolerationSeconds": 600}]}
    assert evicts(rule("NoExecute"), for_a_while)
    assert not evicts(rule("NoExecute"), {"tolerations": [{"key": "k", "operator": "Exists"}]})
