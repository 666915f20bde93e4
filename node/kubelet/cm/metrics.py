"""What the resource managers count, under upstream's names. Made by ``assembly``."""

from collections.abc import Mapping

from component.metrics import Registry

CONTAINER, POD = "container", "pod"
CPU_MANAGER, MEMORY_MANAGER = "cpu_manager", "memory_manager"
NUMA_NODE, PHYSICAL_CPU, UNCORE_CACHE = "numa_node", "physical_cpu", "uncore_cache"
_PINNED = {CPU_MANAGER: "cpu core", MEMORY_MANAGER: "memory pages"}
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
        self._pinning = {
            manager: registry.counter(
                f"kubelet_{manager}_pinning_requests_total", f"The number of {what} allocations which required pinning."
            )
            for manager, what in _PINNED.items()
        }
        self._pinning_errors = {
            manager: registry.counter(
                f"kubelet_{manager}_pinning_errors_total",
                f"The number of {what} allocations which required pinning failed.",
            )
            for manager, what in _PINNED.items()
        }
        self._shared = registry.gauge(
            "kubelet_cpu_manager_shared_pool_size_millicores",
            "The size of the shared CPU pool for non-guaranteed QoS pods, in millicores.",
        )
        self._exclusive = registry.gauge(
            "kubelet_cpu_manager_exclusive_cpu_allocation_count",
            "The total number of CPUs exclusively allocated to containers running on this node.",
        )
        self._per_node = registry.gauge(
            "kubelet_cpu_manager_allocation_per_numa", "Number of CPUs allocated per NUMA node.", ("numa_node",)
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

    def pinning_requested(self, manager: str) -> None:
        """A container is to get CPUs or memory of its own."""
        self._pinning[manager].inc()

    def pinning_failed(self, manager: str) -> None:
        self._pinning_errors[manager].inc()

    def cpus(self, shared: int, exclusive: int, per_node: Mapping[int, int]) -> None:
        """How the CPUs are divided now."""
        self._shared.set(shared * 1000)
        self._exclusive.set(exclusive)
        for node, count in per_node.items():
            self._per_node.labels(str(node)).set(count)
