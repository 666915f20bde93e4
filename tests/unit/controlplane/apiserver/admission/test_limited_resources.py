"""What a quota must cover before it may be used, and what alone is no business of any topology."""

from typing import Any

import pytest

from apimachinery.errors import StatusError
from component.errors import OperatorError
from controlplane.apiserver.admission.limited_resources import Limited, limited_from, uncovered
from tests.unit.controlplane.apiserver.admission.test_catalog import plugin, run, tools, write

SCOPE = {"scopeName": "PriorityClass", "operator": "In", "values": ["cluster-services"]}
CRITICAL = {"spec": {"priorityClassName": "cluster-services", "containers": []}}
CLAIM = "gold.storageclass.storage.k8s.io/requests.storage"


def quota_of(hard: dict[str, str], *scopes: dict[str, Any]) -> dict[str, Any]:
    return {
        "spec": {"scopeSelector": {"matchExpressions": list(scopes)}},
        "status": {"hard": hard, "used": dict.fromkeys(hard, "0")},
    }


@pytest.mark.parametrize(
    ("limited", "resource", "obj", "cost", "quotas", "why"),
    [
        (Limited("pods", scopes=(SCOPE,)), "pods", CRITICAL, ["pods"], [], "[{PriorityClass In [cluster-services]}]"),
        (Limited("pods", scopes=(SCOPE,)), "pods", {"spec": {}}, ["pods"], [], ""),
        (Limited("pods", scopes=(SCOPE,)), "pods", CRITICAL, ["pods"], [quota_of({"pods": "1"}, SCOPE)], ""),
        (Limited("pods", scopes=(SCOPE,)), "pods", CRITICAL, ["pods"], [quota_of({"pods": "1"})], "[{PriorityClass In"),
        (Limited("pods", scopes=(SCOPE,)), "secrets", CRITICAL, ["secrets"], [], ""),
        (
            Limited("persistentvolumeclaims", ("gold.storageclass",)),
            "persistentvolumeclaims",
            {},
            [CLAIM],
            [],
            f"consume: {CLAIM}",
        ),
        (
            Limited("persistentvolumeclaims", ("gold.storageclass",)),
            "persistentvolumeclaims",
            {},
            [CLAIM],
            [quota_of({CLAIM: "9"})],
            "",
        ),
        (Limited("persistentvolumeclaims", ("gold.storageclass",)), "persistentvolumeclaims", {}, ["requests.storage"], [], ""),
    ],
)
def test_what_is_not_covered(limited: Limited, resource: str, obj: Any, cost: Any, quotas: Any, why: str) -> None:
    found = uncovered([limited], resource, obj, cost, quotas)
    assert found.startswith("insufficient quota to ") if why else not found
    assert why in found


def test_a_configuration() -> None:
    config = {"limitedResources": [{"apiGroup": "apps", "resource": "deployments", "matchContains": ["count/"]}]}
    assert limited_from(config) == (Limited("deployments.apps", ("count/",)),)
    with pytest.raises(OperatorError, match=r"limitedResources\[0\].resource: Required value"):
        limited_from({"limitedResources": [{}]})
    with pytest.raises(OperatorError, match="a scopeName and an operator"):
        limited_from({"limitedResources": [{"resource": "pods", "matchScopes": [{"scopeName": "PriorityClass"}]}]})


async def test_the_plugin_refuses_where_there_is_no_quota_at_all() -> None:
    given = tools(ResourceQuota={"limitedResources": [{"resource": "pods", "matchScopes": [SCOPE]}]})
    with pytest.raises(StatusError) as caught:
        await run(plugin("ResourceQuota", given), write({"metadata": {"name": "x"}, **CRITICAL}))
    text = 'pods "x" is forbidden: insufficient quota to match these scopes: [{PriorityClass In [cluster-services]}]'
    assert caught.value.message == text


@pytest.mark.parametrize("key", ["kubernetes.io/hostname", "topology.kubernetes.io/zone"])
async def test_hard_anti_affinity(key: str) -> None:
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": key}]}
    made = write({"metadata": {"name": "x"}, "spec": {"affinity": {"podAntiAffinity": terms}}})
    if key == "kubernetes.io/hostname":
        await run(plugin("LimitPodHardAntiAffinityTopology"), made)
        return
    with pytest.raises(StatusError) as caught:
        await run(plugin("LimitPodHardAntiAffinityTopology"), made)
    assert caught.value.message == (
        'pods "x" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey topology.kubernetes.io/zone but'
        " only key kubernetes.io/hostname is allowed"
    )
