"""The controller's metrics, by upstream's names and labels: ``pkg/controller/podautoscaler/monitor``."""

from component.metrics import Registry

UP, DOWN, NONE = "scale_up", "scale_down", "none"
SPEC, INTERNAL = "spec", "internal"
_PREFIX = "horizontal_pod_autoscaler_controller_"
_ACTION = "The label 'action' should be either 'scale_down', 'scale_up', or 'none'."
_ERROR = "The label 'error' should be either 'spec', 'internal', or 'none'."


class Monitor:
    """Counts rounds and single metrics. Without a registry it does nothing."""

    def __init__(self, metrics: Registry | None) -> None:
        self._metrics = metrics
        if metrics is None:
            return
        labels: tuple[str, ...] = ("action", "error")
        text = f"[ALPHA] Number of reconciliations of HPA controller. {_ACTION} {_ERROR}"
        self._rounds = metrics.counter(f"{_PREFIX}reconciliations_total", text, labels)
        text = f"[ALPHA] The time(seconds) that the HPA controller takes to reconcile once. {_ACTION} {_ERROR}"
        self._round_seconds = metrics.histogram(f"{_PREFIX}reconciliation_duration_seconds", text, labels)
        labels = ("action", "error", "metric_type")
        text = f"[ALPHA] Number of metric computations. {_ACTION} {_ERROR}"
        self._computations = metrics.counter(f"{_PREFIX}metric_computation_total", text, labels)
        text = f"[ALPHA] The time(seconds) that the HPA controller takes to calculate one metric. {_ACTION} {_ERROR}"
        self._computation_seconds = metrics.histogram(f"{_PREFIX}metric_computation_duration_seconds", text, labels)
        text = "[ALPHA] Current number of controlled HPA objects."
        self._autoscalers = metrics.gauge(f"{_PREFIX}num_horizontal_pod_autoscalers", text)
        text = "[ALPHA] Current desired replica count for HPA objects."
        self._desired = metrics.gauge(f"{_PREFIX}desired_replicas", text, ("namespace", "hpa_name"))

    def reconciled(self, action: str, error: str, seconds: float) -> None:
        if self._metrics is not None:
            self._rounds.labels(action, error).inc()
            self._round_seconds.labels(action, error).observe(seconds)

    def computed(self, action: str, error: str, kind: str, seconds: float) -> None:
        if self._metrics is not None:
            self._computations.labels(action, error, kind).inc()
            self._computation_seconds.labels(action, error, kind).observe(seconds)

    def appeared(self) -> None:
        if self._metrics is not None:
            self._autoscalers.inc()

    def vanished(self, namespace: str, name: str) -> None:
        if self._metrics is not None:
            self._autoscalers.dec()
            self._desired.remove(namespace, name)

    def desired(self, namespace: str, name: str, replicas: int) -> None:
        if self._metrics is not None:
            self._desired.labels(namespace, name).set(replicas)


def compared(wanted: int, current: int) -> str:
    """The label ``action``."""
    return UP if wanted > current else DOWN if wanted < current else NONE
