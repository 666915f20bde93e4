"""replicationcontroller: what ReplicaSets were before; the same loop with a selector that is a plain map."""

from typing import ClassVar

from apimachinery.gvk import GroupVersionResource
from apimachinery.labels import Selector, from_map
from apimachinery.meta import Object
from apimachinery.resources import REPLICATION_CONTROLLERS
from controlplane.controllers.lib.replica_controller import ReplicaController


class ReplicationControllerController(ReplicaController):
    """One loop over ReplicationControllers."""

    name = "replication-controller"
    resource: ClassVar[GroupVersionResource] = REPLICATION_CONTROLLERS
    kind: ClassVar[str] = "ReplicationController"

    @staticmethod
    def selector_of(owner: Object) -> Selector:
        return from_map(owner["spec"].get("selector") or {})
