"""Changes in the cluster that may make a refused pod fit, and what plugins say about them.

``handlers`` turns informer updates into events; ``queue`` wakes the pods whose refusing plugins registered for them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Flag, auto
from typing import Any

from apimachinery.meta import Object


class Action(Flag):
    """What happened to an object."""

    ADD = auto()
    DELETE = auto()
    UPDATE_ALLOCATABLE = auto()
    UPDATE_LABELS = auto()
    UPDATE_TAINTS = auto()
    UPDATE_CONDITIONS = auto()
    UPDATE_UNSCHEDULABLE = auto()
    UPDATE_REQUESTS = auto()
    UPDATE_TOLERATIONS = auto()
    UPDATE_GATES = auto()
    UPDATE_OTHER = auto()


class On:
    """The kinds of objects that events are about."""

    NODE = "Node"
    ASSIGNED_POD = "AssignedPod"
    PENDING_POD = "PendingPod"
    NAMESPACE = "Namespace"
    CLAIM = "PersistentVolumeClaim"
    VOLUME = "PersistentVolume"
    STORAGE_CLASS = "StorageClass"
    CSI_NODE = "CSINode"
    CSI_DRIVER = "CSIDriver"
    CAPACITY = "CSIStorageCapacity"
    RESOURCE_CLAIM = "ResourceClaim"
    RESOURCE_SLICE = "ResourceSlice"
    DEVICE_CLASS = "DeviceClass"


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """One change. ``old`` or ``new`` is None for additions and deletions."""

    on: str
    action: Action
    old: Object | None = None
    new: Object | None = None


Hint = Callable[[Any, ClusterEvent], bool]
"""(refused PodInfo, event) > whether the pod is worth another try. Must be quick, and true when in doubt."""


@dataclass(frozen=True, slots=True)
class Cure:
    """A plugin's statement that such events may cure its refusal."""

    on: str
    actions: Action
    hint: Hint | None = None

    def applies(self, pod: Any, event: ClusterEvent) -> bool:
        if event.on != self.on or not (event.action & self.actions):
            return False
        return self.hint is None or self.hint(pod, event)
