"""The collections that explanations are made from, by kind, and which of them each kind's explanation looks at.

Read by ``reading``. Kinds that are not listed (custom resources, say) are explained from their own conditions and events.
"""

from dataclasses import dataclass

from apimachinery import resources as r
from apimachinery.gvk import GroupVersionResource as Gvr


@dataclass(frozen=True, slots=True)
class Kind:
    resource: Gvr
    namespaced: bool = True
    everywhere: bool = False
    """Matters across namespaces: pods take room on nodes, whoever owns them."""
    metadata_only: bool = False
    """Only names and labels are read: nothing secret ever arrives."""


_RBAC, _WEBHOOKS = "rbac.authorization.k8s.io", "admissionregistration.k8s.io"

KINDS: dict[str, Kind] = {
    "Pod": Kind(r.PODS),
    "Event": Kind(r.CORE_EVENTS),
    "Node": Kind(r.NODES, namespaced=False),
    "Namespace": Kind(r.NAMESPACES, namespaced=False),
    "ConfigMap": Kind(r.CONFIG_MAPS, metadata_only=True),
    "Secret": Kind(r.SECRETS, metadata_only=True),
    "Service": Kind(r.SERVICES),
    "ServiceAccount": Kind(r.SERVICE_ACCOUNTS),
    "ResourceQuota": Kind(r.RESOURCE_QUOTAS),
    "PersistentVolumeClaim": Kind(r.PERSISTENT_VOLUME_CLAIMS),
    "PersistentVolume": Kind(r.PERSISTENT_VOLUMES, namespaced=False),
    "ReplicationController": Kind(r.REPLICATION_CONTROLLERS),
    "Deployment": Kind(r.DEPLOYMENTS),
    "ReplicaSet": Kind(r.REPLICA_SETS),
    "StatefulSet": Kind(r.STATEFUL_SETS),
    "DaemonSet": Kind(r.DAEMON_SETS),
    "Job": Kind(r.JOBS),
    "CronJob": Kind(r.CRON_JOBS),
    "HorizontalPodAutoscaler": Kind(Gvr("autoscaling", "v2", "horizontalpodautoscalers")),
    "PodDisruptionBudget": Kind(r.POD_DISRUPTION_BUDGETS),
    "EndpointSlice": Kind(r.ENDPOINT_SLICES),
    "Lease": Kind(r.LEASES, everywhere=True),
    "StorageClass": Kind(r.STORAGE_CLASSES, namespaced=False),
    "CSINode": Kind(r.CSI_NODES, namespaced=False),
    "CSIDriver": Kind(r.CSI_DRIVERS, namespaced=False),
    "CSIStorageCapacity": Kind(r.CSI_STORAGE_CAPACITIES, everywhere=True),
    "VolumeAttachment": Kind(r.VOLUME_ATTACHMENTS, namespaced=False),
    "PriorityClass": Kind(Gvr("scheduling.k8s.io", "v1", "priorityclasses"), namespaced=False),
    "RuntimeClass": Kind(r.RUNTIME_CLASSES, namespaced=False),
    "ResourceClaim": Kind(r.RESOURCE_CLAIMS, everywhere=True),
    "ResourceSlice": Kind(r.RESOURCE_SLICES, namespaced=False),
    "DeviceClass": Kind(r.DEVICE_CLASSES, namespaced=False),
    "APIService": Kind(Gvr("apiregistration.k8s.io", "v1", "apiservices"), namespaced=False),
    "CustomResourceDefinition": Kind(Gvr("apiextensions.k8s.io", "v1", "customresourcedefinitions"), namespaced=False),
    "MutatingWebhookConfiguration": Kind(Gvr(_WEBHOOKS, "v1", "mutatingwebhookconfigurations"), namespaced=False),
    "ValidatingWebhookConfiguration": Kind(Gvr(_WEBHOOKS, "v1", "validatingwebhookconfigurations"), namespaced=False),
    "Role": Kind(Gvr(_RBAC, "v1", "roles")),
    "RoleBinding": Kind(Gvr(_RBAC, "v1", "rolebindings")),
    "ClusterRole": Kind(r.CLUSTER_ROLES, namespaced=False),
    "ClusterRoleBinding": Kind(Gvr(_RBAC, "v1", "clusterrolebindings"), namespaced=False),
}

# A pod's own surroundings; the scheduler's are read besides when some pod has no node.
_POD = (
    "Pod", "Event", "Node", "ConfigMap", "Secret", "ServiceAccount", "PersistentVolumeClaim", "PersistentVolume", "StorageClass",
    "CSIDriver", "VolumeAttachment",
)  # fmt: skip
SCHEDULING = (
    "Node", "Namespace", "PersistentVolumeClaim", "PersistentVolume", "StorageClass", "CSINode", "CSIDriver",
    "CSIStorageCapacity", "ResourceClaim", "ResourceSlice", "DeviceClass", "Lease",
)  # fmt: skip
_WORKLOAD = (*_POD, "ResourceQuota", "PodDisruptionBudget")

NEEDS: dict[str, tuple[str, ...]] = {
    "Pod": (*_POD, "RuntimeClass", "ResourceClaim"),
    "Deployment": (*_WORKLOAD, "ReplicaSet"),
    "ReplicaSet": _WORKLOAD,
    "ReplicationController": _WORKLOAD,
    "StatefulSet": (*_WORKLOAD, "Service"),
    "DaemonSet": _WORKLOAD,
    "Job": _WORKLOAD,
    "CronJob": (*_WORKLOAD, "Job"),
    "Service": (*_POD, "EndpointSlice"),
    "PersistentVolumeClaim": ("Event", "Pod", "PersistentVolume", "StorageClass", "CSIDriver", "CSINode"),
    "PersistentVolume": ("Event", "PersistentVolumeClaim", "StorageClass", "Pod"),
    "Node": ("Event", "Lease", "Pod", "PodDisruptionBudget"),
    "Namespace": ("APIService",),
    "HorizontalPodAutoscaler": ("Event", "Pod", "Deployment", "ReplicaSet", "StatefulSet", "ReplicationController", "APIService"),
    "PodDisruptionBudget": _POD,
    "APIService": ("Service", "EndpointSlice", "Pod", "Event"),
    "CustomResourceDefinition": (),
    "MutatingWebhookConfiguration": ("Service", "EndpointSlice", "Pod"),
    "ValidatingWebhookConfiguration": ("Service", "EndpointSlice", "Pod"),
    "ResourceQuota": (),
}
"""What is read beside the object itself. Pods of every namespace only for kinds that have none themselves."""

_SHORT = {
    "po": "Pod", "no": "Node", "ns": "Namespace", "svc": "Service", "pvc": "PersistentVolumeClaim", "pv": "PersistentVolume",
    "rc": "ReplicationController", "deploy": "Deployment", "rs": "ReplicaSet", "sts": "StatefulSet", "ds": "DaemonSet",
    "cj": "CronJob", "hpa": "HorizontalPodAutoscaler", "pdb": "PodDisruptionBudget", "quota": "ResourceQuota",
    "crd": "CustomResourceDefinition", "crds": "CustomResourceDefinition",
}  # fmt: skip


def known(word: str) -> str | None:
    """The kind that a user means by its name, plural or short name, as far as it has an own explanation."""
    lower = word.lower()
    for kind in NEEDS:
        if lower in (kind.lower(), KINDS[kind].resource.resource, KINDS[kind].resource.group_resource):
            return kind
    return _SHORT.get(lower)
