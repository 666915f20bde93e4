"""All built-in kinds, in the order discovery lists them. ``__main__`` asks for them once and hands them to the registry."""

from controlplane.apiserver.kinds.apps.deployment import DeploymentStrategy
from controlplane.apiserver.kinds.apps.replicaset import ReplicaSetStrategy
from controlplane.apiserver.kinds.config import KindsConfig
from controlplane.apiserver.kinds.coordination.lease import LeaseStrategy
from controlplane.apiserver.kinds.core.configmap import ConfigMapStrategy
from controlplane.apiserver.kinds.core.endpoints import EndpointsStrategy
from controlplane.apiserver.kinds.core.event import CORE_EVENTS, EventStrategy
from controlplane.apiserver.kinds.core.namespace import NamespaceStrategy
from controlplane.apiserver.kinds.core.node import NodeStrategy
from controlplane.apiserver.kinds.core.pod import PodStrategy
from controlplane.apiserver.kinds.core.secret import SecretStrategy
from controlplane.apiserver.kinds.core.service import ServiceStrategy
from controlplane.apiserver.kinds.core.service.allocation import ServiceClaims
from controlplane.apiserver.kinds.core.serviceaccount import ServiceAccountStrategy
from controlplane.apiserver.kinds.discovery.endpointslice import EndpointSliceStrategy
from controlplane.apiserver.kinds.events.event import NewEventStrategy
from controlplane.apiserver.registry.strategy import Strategy


def strategies(config: KindsConfig) -> list[Strategy]:
    """One strategy for each kind and version that is served."""
    return [
        ConfigMapStrategy(),
        EndpointsStrategy(),
        EventStrategy(config.event_ttl),
        NamespaceStrategy(),
        NodeStrategy(),
        PodStrategy(),
        SecretStrategy(),
        ServiceAccountStrategy(),
        ServiceStrategy(ServiceClaims(config)),
        DeploymentStrategy(),
        ReplicaSetStrategy(),
        LeaseStrategy(),
        EndpointSliceStrategy(),
        NewEventStrategy(config.event_ttl, CORE_EVENTS),
    ]
