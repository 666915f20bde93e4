"""What the resource managers count, under upstream's names. Made by ``assembly``."""

from component.metrics import Registry

CONTAINER, POD = "container", "pod"
NUMA_NODE, PHYSICAL_CPU, UNCORE_CACHE = "numa_node", "physical_cpu", "uncore_cache"
_ADMISSION_MS = tuple(0.05 * 2**power for power in range(15))


class ResourceMetrics:
    """One per kubelet; with a registry of its own in tests."""

    def __init__(self, registry: Registry) -> None:
        self._requests = registry.counter(
            "kubelet_topology_manager_admission_requests_total",
            "The number of admission requests where resources have to be aligned.",
        )
        self._errors = registry.counter(
            "kubelet_topology_manager_admission_errors_total",
            "The number of admission request failures where resources could not be aligned.",
        )
        self._duration = registry.histogram(
            "kubelet_topology_manager_admission_duration_ms",
            "Duration in milliseconds to serve a pod admission request.",
            buckets=_ADMISSION_MS,
        )
        self._aligned = registry.gauge(
            "kubelet_container_aligned_compute_resources_count",
            "Cumulative number of aligned compute resources allocated to containers by alignment type.",
            ("scope", "boundary"),
        )
        self._not_aligned = registry.gauge(
            "kubelet_container_aligned_compute_resources_failure_count",
            "Cumulative number of failures to allocate aligned compute resources to containers by alignment type.",
            ("scope", "boundary"),
        )

    def admission_requested(self) -> None:
        self._requests.inc()

    def admission_failed(self) -> None:
        self._errors.inc()

    def admission_took(self, seconds: float) -> None:
        self._duration.observe(seconds * 1000)

    def aligned(self, scope: str, boundary: str) -> None:
        """Something was allocated within one ``boundary`` because the policy guarantees it."""
        self._aligned.labels(scope, boundary).inc()

    def not_aligned(self, scope: str, boundary: str) -> None:
        self._not_aligned.labels(scope, boundary).inc()
