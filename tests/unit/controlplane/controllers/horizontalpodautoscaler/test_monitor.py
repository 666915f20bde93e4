from component.metrics import Registry
from controlplane.controllers.horizontalpodautoscaler import monitor


def test_metrics_by_upstreams_names() -> None:
    registry = Registry(process=False)
    watched = monitor.Monitor(registry)
    watched.appeared()
    watched.appeared()
    watched.reconciled(monitor.UP, monitor.NONE, 0.1)
    watched.computed(monitor.NONE, monitor.INTERNAL, "Resource", 0.1)
    watched.desired("ns", "web", 4)
    text = registry.expose().decode()
    prefix = "horizontal_pod_autoscaler_controller_"
    for line in (
        'reconciliations_total{action="scale_up",error="none"} 1.0',
        'reconciliation_duration_seconds_count{action="scale_up",error="none"} 1.0',
        'metric_computation_total{action="none",error="internal",metric_type="Resource"} 1.0',
        'metric_computation_duration_seconds_count{action="none",error="internal",metric_type="Resource"} 1.0',
        "num_horizontal_pod_autoscalers 2.0",
        'desired_replicas{hpa_name="web",namespace="ns"} 4.0',
    ):
        assert prefix + line in text
    watched.vanished("ns", "web")
    watched.vanished("ns", "other")
    text = registry.expose().decode()
    assert f"{prefix}num_horizontal_pod_autoscalers 0.0" in text
    assert f"{prefix}desired_replicas{{" not in text


def test_without_a_registry_nothing_is_counted() -> None:
    watched = monitor.Monitor(None)
    watched.appeared()
    watched.reconciled(monitor.DOWN, monitor.NONE, 0.1)
    watched.computed(monitor.NONE, monitor.SPEC, "", 0.1)
    watched.desired("ns", "web", 1)
    watched.vanished("ns", "web")


def test_actions() -> None:
    assert [monitor.compared(wanted, 2) for wanted in (1, 2, 3)] == [monitor.DOWN, monitor.NONE, monitor.UP]
