"""What the device manager counts, under upstream's names."""

from component.metrics import Registry

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class DeviceMetrics:
    """One per kubelet."""

    def __init__(self, registry: Registry) -> None:
        label = ("resource_name",)
        self._registrations = registry.counter(
            "kubelet_device_plugin_registration_total", "How often plugins have registered, by resource.", label
        )
        self._allocations = registry.histogram(
            "kubelet_device_plugin_alloc_duration_seconds", "How long plugins took to allocate, by resource.", label, _BUCKETS
        )

    def registered(self, resource: str) -> None:
        self._registrations.labels(resource).inc()

    def allocated(self, resource: str, seconds: float) -> None:
        self._allocations.labels(resource).observe(seconds)
