"""What the pod resources API counts, under upstream's names."""

from component.metrics import Registry

_VERSION = "v1"
_METHODS = ("list", "get_allocatable", "get")


class PodResourcesMetrics:
    """One per kubelet."""

    def __init__(self, registry: Registry) -> None:
        label = ("server_api_version",)
        prefix = "kubelet_pod_resources_endpoint"
        self._all = registry.counter(f"{prefix}_requests_total", "All requests to the pod resources API.", label)
        # upstream's counters of these names do not end in _total, as the library's would
        self._requests = {
            each: registry.gauge(f"{prefix}_requests_{each}", f"Requests to {each} of the pod resources API.", label)
            for each in _METHODS
        }
        self._errors = {
            each: registry.gauge(f"{prefix}_errors_{each}", f"Requests to {each} that failed.", label) for each in _METHODS
        }

    def requested(self, method: str) -> None:
        self._all.labels(_VERSION).inc()
        self._requests[method].labels(_VERSION).inc()

    def failed(self, method: str) -> None:
        self._errors[method].labels(_VERSION).inc()
