"""What the kubelet counts, under upstream's names. Made by ``assembly``; the parts call it, ``server`` shows it."""

from collections.abc import Mapping

from component.metrics import Registry
from node.kubelet.runtime.observed import ObservedPod

_RELIST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_START_BUCKETS = (0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)


class KubeletMetrics:
    """One per kubelet; with a registry of its own in tests."""

    def __init__(self, registry: Registry, node_name: str = "") -> None:
        self._relist = registry.histogram(
            "kubelet_pleg_relist_duration_seconds",
            "How long one look at all sandboxes and containers took.",
            buckets=_RELIST_BUCKETS,
        )
        self._pods = registry.gauge("kubelet_running_pods", "Pods whose sandbox runs.")
        self._containers = registry.gauge("kubelet_running_containers", "Containers in each state.", ("container_state",))
        self._started_pods = registry.counter("kubelet_started_pods_total", "Sandboxes this kubelet has tried to start.")
        self._failed_pods = registry.counter("kubelet_started_pods_errors_total", "Sandboxes that did not start.")
        self._started_containers = registry.counter(
            "kubelet_started_containers_total", "Containers this kubelet has tried to start."
        )
        self._failed_containers = registry.counter(
            "kubelet_started_containers_errors_total", "Containers that did not start, by reason.", ("code",)
        )
        self._start = registry.histogram(
            "kubelet_pod_start_duration_seconds",
            "From the moment the kubelet first saw a pod until it ran.",
            buckets=_START_BUCKETS,
        )
        registry.gauge("kubelet_node_name", "Always 1; the label is the node's name.", ("node",)).labels(node_name).set(1)

    def relisted(self, seconds: float, pods: Mapping[str, ObservedPod]) -> None:
        """PLEG has looked at everything."""
        self._relist.observe(seconds)
        self._pods.set(sum(any(sandbox.ready for sandbox in pod.sandboxes) for pod in pods.values()))
        counts: dict[str, int] = {"created": 0, "running": 0, "exited": 0, "unknown": 0}
        for pod in pods.values():
            for container in pod.containers:
                counts[container.state.value] += 1
        for state, count in counts.items():
            self._containers.labels(state).set(count)

    def pod_started(self, error: bool = False) -> None:
        self._started_pods.inc()
        if error:
            self._failed_pods.inc()

    def container_started(self, error: str = "") -> None:
        """``error`` is the waiting reason of a container that did not start."""
        self._started_containers.inc()
        if error:
            self._failed_containers.labels(error).inc()

    def pod_runs(self, seconds: float) -> None:
        """A pod came to run, ``seconds`` after this kubelet first saw it."""
        self._start.observe(seconds)
