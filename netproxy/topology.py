"""Which endpoints of a service port traffic may use here: pure, called by ``plan`` for every changed port.

Ready endpoints first; endpoints that terminate but still serve only when there is no ready one, so that a node that loses
its last local pod does not lose the traffic already on its way.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from netproxy.trackers.endpoints import Endpoint
from netproxy.trackers.nodes import NodeFacts
from netproxy.trackers.services import ServicePort


@dataclass(frozen=True, slots=True)
class Reach:
    """``cluster`` for policy Cluster, ``local`` for policy Local; ``anywhere`` tells "none here" from "none at all"."""

    cluster: tuple[Endpoint, ...]
    local: tuple[Endpoint, ...]
    anywhere: bool


def categorize(port: ServicePort, endpoints: Sequence[Endpoint], node: NodeFacts) -> Reach:
    """Sort the endpoints by policy. A category that the service does not use is empty."""
    cluster: tuple[Endpoint, ...] = ()
    if port.uses_cluster_endpoints:
        near = _near(endpoints, node)
        cluster = _usable([endpoint for endpoint in endpoints if near(endpoint)])
        if not cluster:
            cluster = _usable(endpoints)
    local: tuple[Endpoint, ...] = ()
    if port.uses_local_endpoints:
        local = _usable([endpoint for endpoint in endpoints if endpoint.local])
    anywhere = bool(cluster) or any(endpoint.ready or (endpoint.serving and endpoint.terminating) for endpoint in endpoints)
    return Reach(cluster, local, anywhere)


def _usable(endpoints: Sequence[Endpoint]) -> tuple[Endpoint, ...]:
    ready = tuple(endpoint for endpoint in endpoints if endpoint.ready)
    return ready or tuple(endpoint for endpoint in endpoints if endpoint.serving and endpoint.terminating)


def _everywhere(endpoint: Endpoint) -> bool:
    return True


def _near(endpoints: Sequence[Endpoint], node: NodeFacts) -> Callable[[Endpoint], bool]:
    """Honour hints only when every ready endpoint carries them and one is for here: half-written hints would overload it."""
    ready = [endpoint for endpoint in endpoints if endpoint.ready]
    if ready and all(endpoint.nodes for endpoint in ready) and any(node.name in endpoint.nodes for endpoint in ready):
        return lambda endpoint: node.name in endpoint.nodes
    if node.zone and ready and all(endpoint.zones for endpoint in ready) and any(node.zone in each.zones for each in ready):
        return lambda endpoint: node.zone in endpoint.zones
    return _everywhere
