"""LimitRanger and RuntimeClass: what they add to pods and what they refuse."""

from typing import Any

import pytest

from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.admission.interface import CREATE, Attributes
from controlplane.apiserver.admission.plugins.limit_ranger import LimitRanger, totals
from controlplane.apiserver.admission.plugins.runtime_class import RuntimeClass
from controlplane.apiserver.authentication.interface import UserInfo


def pod(*containers: dict[str, Any], **spec: Any) -> Attributes:
    obj = {"metadata": {"name": "p"}, "spec": {"containers": list(containers), **spec}}
    return Attributes(CREATE, GroupVersionKind("", "v1", "Pod"), "pods", "", "n", "p", obj, None, UserInfo("u"))


def container(**resources: Any) -> dict[str, Any]:
    return {"name": "c", "resources": resources}


def ranger(*items: dict[str, Any]) -> LimitRanger:
    async def listing(resource: str, namespace: str) -> list[dict[str, Any]]:
        assert (resource, namespace) == ("limitranges", "n")
        return [{"spec": {"limits": list(items)}}]

    return LimitRanger(listing)


async def test_containers_get_what_they_leave_out() -> None:
    attributes = pod(container(requests={"cpu": "1"}))
    item = {"type": "Container", "default": {"cpu": "2", "memory": "1Gi"}, "defaultRequest": {"cpu": "500m", "memory": "1Gi"}}
    await ranger(item).mutate(attributes)
    assert attributes.obj is not None
    resources = attributes.obj["spec"]["containers"][0]["resources"]
    assert resources == {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}}
    text = "LimitRanger plugin set: memory request for container c; cpu, memory limit for container c"
    assert attributes.obj["metadata"]["annotations"] == {"kubernetes.io/limit-ranger": text}


@pytest.mark.parametrize(
    ("item", "resources", "text"),
    [
        pytest.param(
            {"min": {"cpu": "1"}}, {}, "minimum cpu usage per Container is 1.  No request is specified", id="no-request"
        ),
        pytest.param({"min": {"cpu": "1"}}, {"requests": {"cpu": "500m"}}, "is 1, but request is 500m", id="too-little"),
        pytest.param({"max": {"cpu": "1"}}, {}, "maximum cpu usage per Container is 1.  No limit is specified", id="no-limit"),
        pytest.param({"max": {"cpu": "1"}}, {"limits": {"cpu": "2"}}, "is 1, but limit is 2", id="too-much"),
        pytest.param(
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"requests": {"cpu": "1"}, "limits": {"cpu": "3"}},
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
            id="ratio",
        ),
        pytest.param(
            {"min": {"cpu": "1"}, "max": {"cpu": "2"}}, {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}, None, id="fits"
        ),
    ],
)
async def test_bounds(item: dict[str, Any], resources: dict[str, Any], text: str | None) -> None:
    plugin = ranger({"type": "Container", **item})
    if text is None:
        await plugin.validate(pod(container(**resources)))
        return
    with pytest.raises(StatusError) as refusal:
        await plugin.validate(pod(container(**resources)))
    assert refusal.value.code == 403
    assert text in refusal.value.message


def test_a_pod_asks_for_the_sum_or_its_largest_init_container() -> None:
    made = {
        "spec": {
            "containers": [container(requests={"cpu": "1"}), container(requests={"cpu": "500m"})],
            "initContainers": [container(requests={"cpu": "2", "memory": "1Gi"})],
        }
    }
    assert totals(made)["requests"] == {"cpu": "2", "memory": "1Gi"}


def runtime(found: dict[str, Any] | None) -> RuntimeClass:
    async def lookup(resource: str, namespace: str, name: str) -> dict[str, Any] | None:
        return found

    return RuntimeClass(lookup)


async def test_a_runtime_class_brings_its_cost_and_its_nodes() -> None:
    attributes = pod(runtimeClassName="r", nodeSelector={"a": "b"})
    scheduling = {"nodeSelector": {"c": "d"}, "tolerations": [{"key": "k", "operator": "Exists"}]}
    await runtime({"overhead": {"podFixed": {"cpu": "1"}}, "scheduling": scheduling}).mutate(attributes)
    assert attributes.obj is not None
    spec = attributes.obj["spec"]
    assert (spec["overhead"], spec["nodeSelector"]) == ({"cpu": "1"}, {"a": "b", "c": "d"})
    assert spec["tolerations"] == scheduling["tolerations"]


@pytest.mark.parametrize(
    ("found", "spec", "text"),
    [
        (None, {"runtimeClassName": "r"}, 'RuntimeClass "r" not found'),
        ({}, {"overhead": {"cpu": "1"}}, "Pod Overhead set without"),
        ({"scheduling": {"nodeSelector": {"a": "c"}}}, {"runtimeClassName": "r", "nodeSelector": {"a": "b"}}, "conflict"),
    ],
    ids=["missing", "overhead", "conflict"],
)
async def test_a_runtime_class_must_fit(found: dict[str, Any] | None, spec: dict[str, Any], text: str) -> None:
    with pytest.raises(StatusError, match=text):
        await runtime(found).mutate(pod(**spec))
