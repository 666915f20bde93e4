"""The feature gates of Kubernetes v1.36, with stage and default, and which of them this code asks.

Source: kubernetes/kubernetes pkg/features/kube_features.go and staging/src/k8s.io/apiserver/pkg/features/kube_features.go (the
entry in force at 1.36), and the pages of the gates at kubernetes.io. A gate that is gone is refused, as upstream refuses it; one
that is known but not asked by anything here is accepted, so that a cluster's flags can be taken over, and warned about.
"""

from collections.abc import Mapping
from typing import Any

import click

from component.featuregates import ALPHA, BETA, DEPRECATED, GA, Feature, Gates, described, gates
from component.flags import KEY_VALUES, option

# (gate, default, what it needs): asked somewhere in this code
_HERE: Mapping[str, tuple[tuple[str, bool, tuple[str, ...]], ...]] = {
    ALPHA: (
        ("ContainerStopSignals", False, ()),
        ("CrossNamespaceVolumeDataSource", False, ()),
        ("DRAListTypeAttributes", False, ()),
        ("DRAResourcePoolStatus", False, ()),
        ("DRAWorkloadResourceClaims", False, ("GenericWorkload",)),
        ("GenericWorkload", False, ()),
        ("HPAScaleToZero", False, ()),
        ("StorageVersionAPI", False, ("APIServerIdentity",)),
        ("TopologyAwareWorkloadScheduling", False, ("GenericWorkload",)),
        ("VolumeLimitScaling", False, ()),
        ("WorkloadAwarePreemption", False, ("GangScheduling",)),
    ),
    BETA: (
        ("APIResponseCompression", True, ()),
        ("ClearingNominatedNodeNameAfterBinding", True, ()),
        ("ClusterTrustBundle", False, ()),
        ("ClusterTrustBundleProjection", False, ("ClusterTrustBundle",)),
        ("ContainerRestartRules", True, ()),
        ("CoordinatedLeaderElection", False, ()),
        ("EnvFiles", True, ()),
        ("HPAConfigurableTolerance", True, ()),
        ("HostnameOverride", True, ()),
        ("ImageVolume", True, ()),
        ("MaxUnavailableStatefulSet", True, ()),
        ("MutablePodResourcesForSuspendedJobs", True, ()),
        ("MutableSchedulingDirectivesForSuspendedJobs", True, ()),
        ("PodCertificateRequest", False, ()),
        ("PodLevelResources", True, ()),
        ("PodTopologyLabelsAdmission", True, ()),
        ("SELinuxChangePolicy", True, ()),
        ("WatchList", True, ()),
    ),
}

# Known, and asked by nothing here.
_ELSEWHERE: Mapping[tuple[str, bool], str] = {
    (ALPHA, False): (
        "AllowUnsafeMalformedObjectDeletion APIServingWithRoutine CBORServingAndStorage CPUCFSQuotaPeriod "
        "CPUManagerPolicyAlphaOptions CSIVolumeHealth CloudControllerManagerWebhook DRANodeAllocatableResources EventedPLEG "
        "GangScheduling ImageVolumeWithDigest InPlacePodLevelResourcesVerticalScaling InPlacePodVerticalScalingExclusiveCPUs "
        "InPlacePodVerticalScalingExclusiveMemory KubeletInUserNamespace MemoryQoS MutablePVNodeAffinity "
        "PodAndContainerStatsFromCRI PodLogsQuerySplitStreams QOSReserved ReduceDefaultCrashLoopBackOffDecay "
        "RelaxedServiceNameValidation ResourceHealthStatus RestartAllContainersOnContainerExits RuntimeClassInImageCriAPI "
        "ShardedListAndWatch TopologyManagerPolicyAlphaOptions UserNamespacesHostNetworkSupport WindowsCPUAndMemoryAffinity "
        "WindowsGracefulNodeShutdown WorkloadWithJob"
    ),
    (BETA, False): (
        "ConcurrentWatchObjectDecode DRADeviceTaintRules DeclarativeValidationTakeover "
        "LocalStorageCapacityIsolationFSQuotaMonitoring NodeLogQuery SELinuxMount SchedulerAsyncAPICalls"
    ),
    (BETA, True): (
        "APIServerIdentity APIServerTracing AllowParsingUserUIDFromCertAuth "
        "AuthorizePodWebsocketUpgradeCreatePermission CPUManagerPolicyBetaOptions CSIServiceAccountTokenSecrets "
        "ComponentStatusz ConstrainedImpersonation ContainerCheckpoint ContextualLogging "
        "DRAConsumableCapacity DRADeviceBindingConditions DRADeviceTaints DRAExtendedResource DRAPartitionableDevices "
        "DRAPrioritizedList DRAResourceClaimDeviceStatus DRASchedulerFilterTimeout DeclarativeValidation "
        "DeploymentReplicaSetTerminatingReplicas DetectCacheInconsistency DisableCPUQuotaWithExclusiveCPUs "
        "ExternalServiceAccountTokenSigner GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority "
        "KubeletCrashLoopBackOffMax KubeletEnsureSecretPulledImages KubeletPSI KubeletPodResourcesDynamicResources "
        "KubeletPodResourcesGet KubeletSeparateDiskGC KubeletServiceAccountTokenForCredentialProviders "
        "MatchLabelKeysInPodTopologySpread MatchLabelKeysInPodTopologySpreadSelectorMerge MutableCSINodeAllocatableCount "
        "NodeDeclaredFeatures "
        "NominatedNodeNameForExpectation OpportunisticBatching PodDeletionCost PodReadyToStartContainersCondition "
        "PortForwardWebsockets PreventStaticPodAPIReferences ProcMountType ReloadKubeletClientCAFile "
        "ReloadKubeletServerCertificateFile RotateKubeletServerCertificate SELinuxMountReadWriteOncePod "
        "SchedulerAsyncPreemption SchedulerPopFromBackoffQ ServiceAccountNodeAudienceRestriction "
        "TopologyManagerPolicyBetaOptions TranslateStreamCloseWebsocketRequests UnauthenticatedHTTP2DOSMitigation"
    ),
    (DEPRECATED, False): (
        "AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests ChangeContainerStatusOnKubeletRestart "
        "GitRepoVolumeDriver KubeletRegistrationGetOnExistsOnly"
    ),
    (DEPRECATED, True): "DisableNodeKubeProxyVersion KubeletPodResourcesListUseActivePods",
}

_LOCKED_ON = (  # stable, and no longer a choice
    "AnonymousAuthConfigurableEndpoints AuthorizeNodeWithSelectors AuthorizeWithSelectors ConsistentListFromCache "
    "DRAAdminAccess DisableAllocatorDualWrite DynamicResourceAllocation ExecProbeTimeout ImageMaximumGCAge "
    "InPlacePodVerticalScaling JobManagedBy JobPodReplacementPolicy KubeletCgroupDriverFromCRI KubeletTracing "
    "MultiCIDRServiceAllocator MutatingAdmissionPolicy NodeSwap OrderedNamespaceDeletion PodLifecycleSleepAction "
    "PodLifecycleSleepActionAllowZero PodObservedGenerationTracking PreferSameTrafficDistribution "
    "RecoverVolumeExpansionFailure RelaxedDNSSearchValidation RelaxedEnvironmentVariableValidation "
    "ResilientWatchCacheInitialization RetryGenerateName SchedulerQueueingHints SeparateTaintEvictionController "
    "StreamingCollectionEncodingToJSON StreamingCollectionEncodingToProtobuf StructuredAuthenticationConfiguration "
    "StructuredAuthenticationConfigurationEgressSelector StructuredAuthorizationConfiguration VolumeAttributesClass"
)


def _table() -> tuple[Feature, ...]:
    here = [Feature(name, on, stage, here=True, needs=needs) for stage, rows in _HERE.items() for name, on, needs in rows]
    others = [Feature(name, on, stage) for (stage, on), names in _ELSEWHERE.items() for name in names.split()]
    locked = [Feature(name, True, GA, locked=True) for name in _LOCKED_ON.split()]
    locked.append(Feature("AllowOverwriteTerminationGracePeriodSeconds", False, DEPRECATED, locked=True))
    return tuple(sorted((*here, *others, *locked), key=lambda feature: feature.name))


FEATURES = _table()
DEFAULTS = gates(FEATURES, {})


class _FeatureGates(click.ParamType):  # type: ignore[type-arg]  # generic only in later clicks
    """``A=true,B=false``; the parsed value is :class:`Gates`."""

    name = "feature gates"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Gates:
        if isinstance(value, Gates):
            return value
        wishes = KEY_VALUES.convert(value, param, ctx)
        try:
            return from_flag(wishes)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def flag() -> click.Option:
    """``--feature-gates``, for every daemon."""
    return option("--feature-gates", type=_FeatureGates(), default=DEFAULTS, show_default=False, help=described(FEATURES))


def from_flag(wishes: Mapping[str, str]) -> Gates:
    """The gates that a ``--feature-gates`` value asks for. Raises ValueError, in upstream's words."""
    return gates(FEATURES, wishes)
