"""replicaset: keeps as many pods as ``spec.replicas`` says."""

from typing import ClassVar

from apimachinery.gvk import GroupVersionResource
from apimachinery.resources import REPLICA_SETS
from controlplane.controllers.lib.replica_controller import ReplicaController


class ReplicaSetController(ReplicaController):
    """One loop over ReplicaSets."""

    name = "replicaset-controller"
    resource: ClassVar[GroupVersionResource] = REPLICA_SETS
    kind: ClassVar[str] = "ReplicaSet"
