from typing import Any

import pytest

from controlplane.apiserver.kinds.autoscaling.horizontalpodautoscaler import HorizontalPodAutoscalerStrategy
from controlplane.apiserver.kinds.autoscaling.horizontalpodautoscaler_v1 import HorizontalPodAutoscalerV1Strategy
from controlplane.apiserver.kinds.autoscaling.metrics_v1 import metric_from_v1, metric_to_v1
from tests.support.kinds import NOW, created, problems

Object = dict[str, Any]
REFERENCE = {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}
V2 = HorizontalPodAutoscalerStrategy()
V1 = HorizontalPodAutoscalerV1Strategy(V2)


def autoscaler(**spec: Any) -> Object:
    return {"spec": {"scaleTargetRef": REFERENCE, "maxReplicas": 5, **spec}}


def test_default_metric_is_eighty_percent_of_requested_cpu() -> None:
    spec = created(V2, autoscaler())["spec"]
    assert spec["minReplicas"] == 1
    target = {"type": "Utilization", "averageUtilization": 80}
    assert spec["metrics"] == [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"minReplicas": 0}, "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1"),
        ({"maxReplicas": 0}, "spec.maxReplicas: Invalid value: 0: must be greater than 0"),
        ({"minReplicas": 6}, "spec.maxReplicas: Invalid value: 5: must be greater than or equal to `minReplicas`"),
        ({"scaleTargetRef": {}}, "spec.scaleTargetRef.kind: Required value"),
        ({"metrics": [{"type": "Pods"}]}, "spec.metrics[0].pods: Required value: must populate information"),
    ],
)
def test_refuses(spec: Object, message: str) -> None:
    found = problems(V2, autoscaler(**spec))
    assert any(text.startswith(message) for text in found), found


def test_row() -> None:
    obj = created(V2, autoscaler())
    obj["metadata"]["creationTimestamp"] = "2026-11-30T11:59:00Z"
    assert V2.row(obj, NOW) == ["x", "Deployment/web", "cpu: <unknown>/80%", "1", 5, 0, "60s"]
    obj["status"] = {
        "currentReplicas": 2,
        "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 12}}}],
    }
    assert V2.row(obj, NOW)[2:6] == ["cpu: 12%/80%", "1", 5, 2]


def test_v1_is_stored_as_v2_and_read_back() -> None:
    obj = created(
        V1, {"kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v1", **autoscaler(targetCPUUtilizationPercentage=50)}
    )
    stored = V1.to_stored(obj)
    assert stored["apiVersion"] == "autoscaling/v2"
    assert stored["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 50
    assert V1.from_stored(stored)["spec"] == obj["spec"]


METRICS = [
    {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
    {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1"}}},
    {
        "type": "Object",
        "object": {"metric": {"name": "m"}, "describedObject": REFERENCE, "target": {"type": "Value", "value": "1"}},
    },
    {
        "type": "External",
        "external": {"metric": {"name": "m", "selector": {"matchLabels": {"a": "b"}}}, "target": {"type": "Value", "value": "1"}},
    },
    {
        "type": "ContainerResource",
        "containerResource": {"name": "cpu", "container": "c", "target": {"type": "Utilization", "averageUtilization": 5}},
    },
]


@pytest.mark.parametrize("metric", METRICS, ids=[str(one["type"]) for one in METRICS])
def test_metrics_survive_the_way_through_v1(metric: Object) -> None:
    assert metric_from_v1(metric_to_v1(metric)) == metric


def test_what_v1_has_no_field_for_travels_in_annotations() -> None:
    obj = created(V2, autoscaler(metrics=METRICS, behavior={"scaleDown": {"stabilizationWindowSeconds": 5}}))
    shown = V1.from_stored(obj)
    assert set(shown["metadata"]["annotations"]) == {
        "autoscaling.alpha.kubernetes.io/metrics",
        "autoscaling.alpha.kubernetes.io/behavior",
    }
    assert V1.to_stored(shown)["spec"] == obj["spec"]
