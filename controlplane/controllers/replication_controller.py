"""replicationcontroller: what ReplicaSets were before; the same loop with a selector that is a plain map."""

from apimachinery.labels import Selector, from_map
from apimachinery.meta import Object
from apimachinery.resources import REPLICATION_CONTROLLERS
from controlplane.controllers.replicaset import ReplicaSetController


class ReplicationControllerController(ReplicaSetController):
    """Keeps as many pods as ``spec.replicas`` says."""

    name = "replication-controller"
    resource = REPLICATION_CONTROLLERS
    kind = "ReplicationController"

    @staticmethod
    def selector_of(owner: Object) -> Selector:
        return from_map(owner["spec"].get("selector") or {})
