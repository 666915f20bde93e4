"""What objects cost a ResourceQuota, and which quotas they fall under."""

from datetime import UTC, datetime
from typing import Any

import pytest

from apimachinery.objects import quota, quota_pods
from apimachinery.quantity import of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
Object = dict[str, Any]


def cost(resource: str, obj: Object) -> dict[str, str]:
    return quota.written(quota.usage(resource, obj, NOW))


def container(requests: Object | None = None, limits: Object | None = None, **more: Any) -> Object:
    return {"name": "c", "resources": {"requests": requests or {}, "limits": limits or {}}, **more}


def pod(*containers: Object, **spec: Any) -> Object:
    return {"metadata": {"name": "p"}, "spec": {"containers": list(containers), **spec}}


def test_a_pod_costs_what_its_containers_ask_and_its_overhead() -> None:
    init = [
        container({"cpu": "1"}, restartPolicy="Always"),  # runs beside what comes later
        container({"cpu": "4", "memory": "1Gi"}),
    ]
    asked = {"cpu": "500m", "memory": "128Mi", "example.com/gpu": "2", "hugepages-2Mi": "4Mi"}
    obj = pod(container(asked, {"cpu": "2"}), initContainers=init, overhead={"cpu": "250m"})
    assert cost("pods", obj) == {
        "count/pods": "1",
        "pods": "1",
        "cpu": "5250m",
        "requests.cpu": "5250m",
        "memory": "1Gi",
        "requests.memory": "1Gi",
        "requests.example.com/gpu": "2",
        "hugepages-2Mi": "4Mi",
        "requests.hugepages-2Mi": "4Mi",
        "limits.cpu": "2250m",
    }


@pytest.mark.parametrize(
    ("meta", "phase", "counts"),
    [
        ({}, "Running", True),
        ({}, "Failed", False),
        ({}, "Succeeded", False),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}, "Running", True),
        ({"deletionTimestamp": "2025-12-31T00:00:00Z", "deletionGracePeriodSeconds": 30}, "Running", False),
    ],
)
def test_pods_that_are_over_cost_only_their_place(meta: Object, phase: str, counts: bool) -> None:
    obj = {**pod(container()), "metadata": meta, "status": {"phase": phase}}
    assert ("pods" in cost("pods", obj)) is counts
    assert cost("pods", obj)["count/pods"] == "1"


@pytest.mark.parametrize(
    ("spec", "ports", "balancers"),
    [
        ({"type": "ClusterIP", "ports": [{}, {}]}, "0", "0"),
        ({"type": "NodePort", "ports": [{}, {}]}, "2", "0"),
        ({"type": "LoadBalancer", "ports": [{}, {}]}, "2", "1"),
        ({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False, "ports": [{"nodePort": 30000}, {}]}, "1", "1"),
    ],
)
def test_services(spec: Object, ports: str, balancers: str) -> None:
    assert cost("services", {"spec": spec}) == {
        "count/services": "1",
        "services": "1",
        "services.nodeports": ports,
        "services.loadbalancers": balancers,
    }


def test_claims_cost_their_class_too() -> None:
    spec = {"storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"metadata": {}, "spec": spec, "status": {"allocatedResources": {"storage": "2Gi"}}}
    assert cost("persistentvolumeclaims", claim) == {
        "count/persistentvolumeclaims": "1",
        "persistentvolumeclaims": "1",
        "requests.storage": "2Gi",
        "fast.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
        "fast.storageclass.storage.k8s.io/requests.storage": "2Gi",
    }
    assert cost("deployments.apps", {}) == {"count/deployments.apps": "1"}
    assert cost("secrets", {}) == {"count/secrets": "1", "secrets": "1"}


def test_names_lead_to_resources() -> None:
    names = {
        "pods",
        "limits.cpu",
        "requests.example.com/x",
        "count/jobs.batch",
        "secrets",
        "requests.storage",
        "services.nodeports",
    }
    assert quota.resources_of(names) == {"pods", "jobs.batch", "secrets", "persistentvolumeclaims", "services"}
    assert quota.concerning("pods", names) == {"pods", "limits.cpu", "requests.example.com/x"}


def scoped(*scopes: str, **selector: Any) -> Object:
    spec: Object = {"scopes": list(scopes)}
    if selector:
        spec["scopeSelector"] = {"matchExpressions": [selector]}
    return {"spec": spec}


CROSSING = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"namespaceSelector": {}}]}}


@pytest.mark.parametrize(
    ("held", "obj", "fits"),
    [
        (scoped(), pod(), True),
        (scoped("Terminating"), pod(activeDeadlineSeconds=0), True),
        (scoped("Terminating"), pod(), False),
        (scoped("NotTerminating", "BestEffort"), pod(container()), True),
        (scoped("NotTerminating", "BestEffort"), pod(container({"cpu": "1"})), False),
        (scoped("PriorityClass"), pod(priorityClassName="a"), True),
        (scoped("PriorityClass"), pod(), False),
        (scoped(scopeName="PriorityClass", operator="In", values=["a"]), pod(priorityClassName="a"), True),
        (scoped(scopeName="PriorityClass", operator="NotIn", values=["a"]), pod(priorityClassName="a"), False),
        (scoped(scopeName="PriorityClass", operator="NotIn", values=["a"]), pod(), True),
        (scoped(scopeName="PriorityClass", operator="DoesNotExist"), pod(), True),
        (scoped("CrossNamespacePodAffinity"), pod(affinity=CROSSING), True),
        (scoped("CrossNamespacePodAffinity"), pod(), False),
    ],
)
def test_scopes(held: Object, obj: Object, fits: bool) -> None:
    assert quota.matches(held, "pods", obj) is fits


def test_only_pods_and_claims_have_scopes() -> None:
    assert not quota.matches(scoped("BestEffort"), "secrets", {})
    attributes = scoped(scopeName="VolumeAttributesClass", operator="In", values=["gold"])
    assert quota.matches(attributes, "persistentvolumeclaims", {"spec": {"volumeAttributesClassName": "gold"}})
    assert not quota.matches(attributes, "persistentvolumeclaims", {"spec": {}})


def test_containers_must_say_what_is_bounded() -> None:
    obj = pod(container({"cpu": "1"}), {"name": "b"})
    assert quota_pods.unsaid({"requests.cpu", "pods"}, obj) == "must specify requests.cpu for: b"
    assert quota_pods.unsaid({"limits.cpu", "memory"}, obj) == "must specify limits.cpu for: b,c; memory for: b,c"
    assert quota_pods.unsaid({"memory"}, {"spec": {**obj["spec"], "resources": {"requests": {"memory": "1"}}}}) == ""


@pytest.mark.parametrize(
    ("requests", "devices"),
    [
        ([{"name": "a", "exactly": {"deviceClassName": "gpu"}}], {"gpu": 1}),
        ([{"name": "a", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 3}}], {"gpu": 3}),
        ([{"name": "a", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}], {"gpu": 32}),
        ([{"name": n, "exactly": {"deviceClassName": "gpu", "count": 2}} for n in "ab"], {"gpu": 4}),
        (
            [
                {
                    "name": "a",
                    "firstAvailable": [
                        {"name": "1", "deviceClassName": "big", "count": 1},
                        {"name": "2", "deviceClassName": "small", "count": 4},
                        {"name": "3", "deviceClassName": "small", "count": 2},
                    ],
                }
            ],
            {"big": 1, "small": 4},
        ),
    ],
)
def test_devices_of_claims(requests: list[Any], devices: dict[str, int]) -> None:
    resource = "resourceclaims.resource.k8s.io"
    cost = quota.usage(resource, {"spec": {"devices": {"requests": requests}}}, NOW)
    named = {f"{name}.deviceclass.resource.k8s.io/devices": of(count) for name, count in devices.items()}
    assert cost == {f"count/{resource}": of(1), **named}
    assert quota.concerning(resource, [*cost, "pods"]) == set(cost)
    assert quota.resources_of(named) == {resource}
