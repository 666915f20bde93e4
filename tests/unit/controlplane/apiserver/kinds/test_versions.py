"""Two versions of one kind say the same: converting there and back changes nothing, whichever one begins."""

from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apimachinery import schema
from apimachinery.gvk import GroupVersionKind
from apimachinery.meta import clone
from apimachinery.schema import check
from controlplane.apiserver.kinds.catalog import strategies
from controlplane.apiserver.kinds.config import KindsConfig
from controlplane.apiserver.kinds.discovery import endpointslice_v1beta1
from controlplane.apiserver.kinds.served import select
from controlplane.apiserver.registry.strategy import Strategy
from tests.support.random_objects import random_value

Object = dict[str, Any]
CATALOG = strategies(KindsConfig())
STORED = {one.info.gvr: one for one in CATALOG if one.stored_as is None}
VIEWS = [one for one in CATALOG if one.stored_as is not None]
IDS = [f"{one.info.plural}.{one.info.gvk.group}.{one.info.gvk.version}" for one in VIEWS]


def random_object(gvk: GroupVersionKind, random: Random) -> Object:
    compiled = schema.load().of(gvk)
    obj: Object = random_value(compiled, random)
    obj.update(apiVersion=gvk.api_version, kind=gvk.kind, metadata={"name": "x", "annotations": {"a": "b"}})
    assert not check.normalize(obj, compiled).type_errors
    return obj


def stored_of(view: Strategy) -> Strategy:
    assert view.stored_as is not None
    return STORED[view.stored_as.gvr]


def representable(view: Strategy, obj: Object, random: Random) -> Object:
    """What validation lets through, as far as the other version can say it; upstream's conversion loses the rest too."""
    old = obj["apiVersion"].endswith("v1beta1")
    name = f"{view.info.plural}/{view.info.gvk.version}"
    if name == "endpointslices/v1beta1":
        for endpoint in obj.get("endpoints") or ():
            endpoint.pop("deprecatedTopology", None)
            endpoint.pop("topology", None)
            if old:  # a node's name shows as its host too, so that is how an object that was read looks
                endpoint.update(endpoint_with_host(endpoint))
    if name == "resourceslices/v1beta1" and old:
        for device in (obj.get("spec") or {}).get("devices") or ():
            device.setdefault("basic", {})
    if name == "horizontalpodautoscalers/v1":
        obj["status"] = {"currentReplicas": 1, "desiredReplicas": 2}
        if obj["apiVersion"] == "autoscaling/v1":  # without any metric, converting would set the default one
            obj.setdefault("spec", {})["targetCPUUtilizationPercentage"] = random.randint(1, 99)
        if view.stored_as is not None and obj["apiVersion"] == "autoscaling/v2":
            obj["spec"]["metrics"] = metrics(random)
            obj["status"]["currentMetrics"] = [
                {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 7}}}
            ]
    return obj


def metrics(random: Random) -> list[Object]:
    """CPU comes first, because v1 has a field of its own for it."""
    named = {"name": "n", "selector": {"matchLabels": {"a": "b"}}}
    average, value = {"type": "AverageValue", "averageValue": "5"}, {"type": "Value", "value": "6"}
    described = {"kind": "Service", "name": "s", "apiVersion": "v1"}
    container = {"name": "memory", "container": "c", "target": average}
    others: list[Object] = [
        {"type": "Resource", "resource": {"name": "memory", "target": average}},
        {"type": "ContainerResource", "containerResource": container},
        {"type": "Pods", "pods": {"metric": named, "target": average}},
        {"type": "Object", "object": {"metric": {"name": "n"}, "describedObject": described, "target": value}},
        {"type": "External", "external": {"metric": named, "target": random.choice([average, value])}},
    ]
    cpu = {"type": "Utilization", "averageUtilization": random.randint(1, 99)}
    first: list[Object] = [{"type": "Resource", "resource": {"name": "cpu", "target": cpu}}]
    return first[: random.randint(0, 1)] + random.sample(others, random.randint(1, 5))


def endpoint_with_host(endpoint: Object) -> Object:
    node = endpoint.get("nodeName")
    return {} if node is None else {"topology": {endpointslice_v1beta1.HOST: node}}


@pytest.mark.parametrize("view", VIEWS, ids=IDS)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(random=st.randoms(use_true_random=False))
def test_stored_to_shown_to_stored(view: Strategy, random: Random) -> None:
    stored = stored_of(view)
    obj = random_object(stored.info.gvk, random)
    stored.default(obj)
    obj = representable(view, obj, random)
    assert view.to_stored(view.from_stored(clone(obj))) == obj


@pytest.mark.parametrize("view", VIEWS, ids=IDS)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(random=st.randoms(use_true_random=False))
def test_shown_to_stored_to_shown(view: Strategy, random: Random) -> None:
    obj = representable(view, random_object(view.info.gvk, random), random)
    view.default(obj)
    back = view.from_stored(view.to_stored(clone(obj)))
    assert back == obj
    assert not check.normalize(back, schema.load().of(view.info.gvk)).unknown


def test_an_empty_selector_means_the_opposite_in_the_old_budget() -> None:
    old = next(one for one in select(CATALOG, {"policy/v1beta1": "true"}) if one.info.gvk.api_version == "policy/v1beta1")
    budget: Object = {"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget", "metadata": {}, "spec": {"selector": {}}}
    stored = old.to_stored(budget)
    assert stored["spec"]["selector"]["matchExpressions"][0]["operator"] == "Exists"  # a label that no pod has
    everything = {**stored, "spec": {"selector": {}}}
    assert old.from_stored(everything)["spec"]["selector"]["matchExpressions"][0]["operator"] == "DoesNotExist"


def test_old_endpoints_name_zone_and_host_as_topology() -> None:
    old = {"addresses": ["10.0.0.1"], "nodeName": "n", "topology": {endpointslice_v1beta1.ZONE: "z", "rack": "7"}}
    new = endpointslice_v1beta1.endpoint_to_v1(old)
    assert new == {"addresses": ["10.0.0.1"], "nodeName": "n", "zone": "z", "deprecatedTopology": {"rack": "7"}}
    shown = endpointslice_v1beta1.endpoint_from_v1(new)
    assert shown["topology"] == {endpointslice_v1beta1.ZONE: "z", endpointslice_v1beta1.HOST: "n", "rack": "7"}
    assert endpointslice_v1beta1.endpoint_to_v1(shown) == new


@pytest.mark.parametrize(
    ("config", "on", "off"),
    [
        ({}, {"v1", "autoscaling/v2"}, {"policy/v1beta1", "resource.k8s.io/v1beta1", "storagemigration.k8s.io/v1beta1"}),
        ({"policy/v1beta1": "true"}, {"policy/v1beta1", "policy/v1"}, {"batch/v1beta1"}),
        ({"api/beta": "true"}, {"batch/v1beta1", "resource.k8s.io/v1beta2"}, {"resource.k8s.io/v1alpha3"}),
        ({"api/all": "true"}, {"resource.k8s.io/v1alpha3", "networking.k8s.io/v1beta1"}, {"coordination.k8s.io/v1alpha2"}),
        ({"api/all": "false", "api/v1": "true"}, {"v1"}, {"apps/v1", "batch/v1beta1"}),
        ({"api/all": "true", "api/alpha": "false"}, {"batch/v1beta1"}, {"resource.k8s.io/v1alpha3"}),
        ({"autoscaling/v2": "false"}, {"autoscaling/v1"}, {"autoscaling/v2"}),
    ],
)
def test_runtime_config_chooses_versions(config: dict[str, str], on: set[str], off: set[str]) -> None:
    versions = {one.info.gvk.api_version for one in select(CATALOG, config)}
    assert on <= versions
    assert not off & versions


def test_one_resource_can_be_chosen() -> None:
    found = select(CATALOG, {"resource.k8s.io/v1beta2/deviceclasses": "true"})
    assert [one.info.plural for one in found if one.info.gvk.version == "v1beta2"] == ["deviceclasses"]


@pytest.mark.parametrize("config", [{"policy/v7": "true"}, {"policy/v1beta1": "perhaps"}, {"api/legacy": "true"}])
def test_runtime_config_refuses_what_means_nothing(config: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="--runtime-config"):
        select(CATALOG, config)
