"""Which fields of which kinds belong to which feature gate. ``catalog`` gives each kind those whose gate is off.

Source: upstream's ``+featureGate`` tags in k8s.io/api and the ``dropDisabledFields`` functions of its strategies.
"""

from collections.abc import Iterator, Mapping

from component.featuregates import Gates
from controlplane.apiserver.registry.disabled_fields import EACH, NONE, DisabledFields, Path

_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
_STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_SOURCES = ("volumes", EACH, "projected", "sources", EACH)

POD_SPEC: Mapping[Path, str] = {
    ("schedulingGroup",): "GenericWorkload",
    ("hostnameOverride",): "HostnameOverride",
    ("hostUsers",): "UserNamespacesSupport",
    ("resources",): "PodLevelResources",
    ("securityContext", "seLinuxChangePolicy"): "SELinuxChangePolicy",
    (*_SOURCES, "clusterTrustBundle"): "ClusterTrustBundleProjection",
    (*_SOURCES, "podCertificate"): "PodCertificateRequest",
    ("volumes", EACH, "image"): "ImageVolume",
    **{(kind, EACH, "lifecycle", "stopSignal"): "ContainerStopSignals" for kind in _CONTAINERS},
    ("containers", EACH, "restartPolicy"): "ContainerRestartRules",
    **{(kind, EACH, "restartPolicyRules"): "ContainerRestartRules" for kind in _CONTAINERS},
    **{(kind, EACH, "env", EACH, "valueFrom", "fileKeyRef"): "EnvFiles" for kind in _CONTAINERS},
}

# where a kind has a pod's spec
POD_SPECS: Mapping[str, Path] = {
    "pods": ("spec",),
    "podtemplates": ("template", "spec"),
    "replicationcontrollers": ("spec", "template", "spec"),
    "daemonsets.apps": ("spec", "template", "spec"),
    "deployments.apps": ("spec", "template", "spec"),
    "replicasets.apps": ("spec", "template", "spec"),
    "statefulsets.apps": ("spec", "template", "spec"),
    "jobs.batch": ("spec", "template", "spec"),
    "cronjobs.batch": ("spec", "jobTemplate", "spec", "template", "spec"),
}

_POD_GROUP: Mapping[str, str] = {
    "schedulingConstraints": "TopologyAwareWorkloadScheduling",
    "priority": "WorkloadAwarePreemption",
    "priorityClassName": "WorkloadAwarePreemption",
    "disruptionMode": "WorkloadAwarePreemption",
    "resourceClaims": "DRAWorkloadResourceClaims",
}

_DEVICE = ("spec", "devices", EACH)
_IN_DEVICE = ((), ("basic",))  # the second is v1beta1's

_OF_DEVICE: Mapping[Path, str] = {
    ("allowMultipleAllocations",): "DRAConsumableCapacity",
    ("bindingConditions",): "DRADeviceBindingConditions",
    ("bindingFailureConditions",): "DRADeviceBindingConditions",
    ("bindsToNode",): "DRADeviceBindingConditions",
    ("capacity", EACH, "requestPolicy"): "DRAConsumableCapacity",
    ("consumesCounters",): "DRAPartitionableDevices",
    ("taints",): "DRADeviceTaints",
    **{("attributes", EACH, field): "DRAListTypeAttributes" for field in ("bools", "ints", "strings", "versions")},
}
_ASKED = ((), ("exactly",), ("firstAvailable", EACH))  # the first is v1beta1's


def _of_claim(spec: Path) -> dict[Path, str]:
    requests = (*spec, "devices", "requests", EACH)
    found: dict[Path, str] = {}
    for inside in _ASKED:
        found[(*requests, *inside, "capacity")] = "DRAConsumableCapacity"
        found[(*requests, *inside, "tolerations")] = "DRADeviceTaints"
    return found


_RESULT = ("status", "allocation", "devices", "results", EACH)

KINDS: Mapping[str, Mapping[Path, str]] = {
    "horizontalpodautoscalers.autoscaling": {
        ("spec", "behavior", direction, "tolerance"): "HPAConfigurableTolerance" for direction in ("scaleUp", "scaleDown")
    },
    "statefulsets.apps": {("spec", "updateStrategy", "rollingUpdate", "maxUnavailable"): "MaxUnavailableStatefulSet"},
    "persistentvolumeclaims": {("spec", "dataSourceRef", "namespace"): "CrossNamespaceVolumeDataSource"},
    "leases.coordination.k8s.io": {
        ("spec", "strategy"): "CoordinatedLeaderElection",
        ("spec", "preferredHolder"): "CoordinatedLeaderElection",
    },
    "csidrivers.storage.k8s.io": {("spec", "preventPodSchedulingIfMissing"): "VolumeLimitScaling"},
    "podgroups.scheduling.k8s.io": {("spec", field): gate for field, gate in _POD_GROUP.items()},
    "workloads.scheduling.k8s.io": {("spec", "podGroupTemplates", EACH, field): gate for field, gate in _POD_GROUP.items()},
    "pods": {
        ("status", "extendedResourceClaimStatus"): "DRAExtendedResource",
        **{("status", kind, EACH, "allocatedResourcesStatus"): "ResourceHealthStatus" for kind in _STATUSES},
    },
    "deviceclasses.resource.k8s.io": {("spec", "extendedResourceName"): "DRAExtendedResource"},
    "resourceclaimtemplates.resource.k8s.io": _of_claim(("spec", "spec")),
    "resourceclaims.resource.k8s.io": {
        **_of_claim(("spec",)),
        ("status", "devices"): "DRAResourceClaimDeviceStatus",
        (*_RESULT, "bindingConditions"): "DRADeviceBindingConditions",
        (*_RESULT, "bindingFailureConditions"): "DRADeviceBindingConditions",
        (*_RESULT, "consumedCapacity"): "DRAConsumableCapacity",
        (*_RESULT, "shareID"): "DRAConsumableCapacity",
        (*_RESULT, "tolerations"): "DRADeviceTaints",
    },
    "resourceslices.resource.k8s.io": {
        **{(*_DEVICE, *inside, *path): gate for inside in _IN_DEVICE for path, gate in _OF_DEVICE.items()},
        ("spec", "perDeviceNodeSelection"): "DRAPartitionableDevices",
        ("spec", "sharedCounters"): "DRAPartitionableDevices",
    },
}


def disabled(resource: str, gates: Gates) -> DisabledFields:
    """The fields of ``resource`` (``plural.group``) whose gate is off."""
    paths = [path for path, gate in of(resource) if not gates.enabled(gate)]
    return DisabledFields(paths) if paths else NONE


def of(resource: str) -> Iterator[tuple[Path, str]]:
    """Every gated field of a kind, with its gate."""
    yield from KINDS.get(resource, {}).items()
    if resource in POD_SPECS:
        for path, gate in POD_SPEC.items():
            yield (*POD_SPECS[resource], *path), gate
