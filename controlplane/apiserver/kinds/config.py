"""What the kinds must know of the server they live in. ``__main__`` fills it from flags."""

from dataclasses import dataclass

from component.featuregates import Gates
from component.features import DEFAULTS
from controlplane.apiserver.registry.allocation import Reader


@dataclass(frozen=True, slots=True)
class KindsConfig:
    """Settings of the API server that change how kinds behave."""

    service_cluster_ip_ranges: tuple[str, ...] = ("10.96.0.0/12",)  # the first one is the default family
    node_port_range: tuple[int, int] = (30000, 32767)  # both ends included
    event_ttl: int = 3600  # seconds
    features: Gates = DEFAULTS
    reader: Reader | None = None  # where claims are looked up; None for a catalog that stores nothing (discovery documents)
