"""What the DRA manager counts, under upstream's names."""

from collections.abc import Mapping

from component.metrics import Registry

_ANY = "<any>"


class DraMetrics:
    """One per kubelet; with a registry of its own in tests."""

    def __init__(self, registry: Registry) -> None:
        self._operations = registry.histogram(
            "dra_operations_duration_seconds", "Latency of all resource claims of a pod together.", ["operation_name", "is_error"]
        )
        self._calls = registry.histogram(
            "dra_grpc_operations_duration_seconds",
            "Duration in seconds of the DRA gRPC operations.",
            ["driver_name", "method_name", "grpc_status_code"],
        )
        self._in_use = registry.gauge(
            "dra_resource_claims_in_use", "The number of ResourceClaims that are currently in use on the node.", ["driver_name"]
        )
        self._drivers: set[str] = set()

    def operated(self, name: str, seconds: float, *, failed: bool) -> None:
        self._operations.labels(name, str(failed).lower()).observe(seconds)

    def called(self, driver: str, method: str, code: str, seconds: float) -> None:
        self._calls.labels(driver, method, code).observe(seconds)

    def in_use(self, total: int, by_driver: Mapping[str, int]) -> None:
        self._drivers |= set(by_driver)
        self._in_use.labels(_ANY).set(total)
        for driver in self._drivers:
            self._in_use.labels(driver).set(by_driver.get(driver, 0))
