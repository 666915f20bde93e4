"""The feature gates of Kubernetes v1.36, with stage and default, and which of them this code asks.

Source: kubernetes/kubernetes pkg/features/kube_features.go and staging/src/k8s.io/apiserver/pkg/features/kube_features.go (the
entry in force at 1.36), and the pages of the gates at kubernetes.io. A gate that is gone is refused, as upstream refuses it; one
that is known but not asked by anything here is accepted, so that a cluster's flags can be taken over, and warned about.
"""

from collections.abc import Iterable, Mapping

import click

from component.featuregates import ALPHA, BETA, DEPRECATED, GA, Feature, Gates, described, gates
from component.flags import KEY_VALUES, option

# (gate, default, what it needs): asked somewhere in this code
_HERE: Mapping[str, tuple[tuple[str, bool, tuple[str, ...]], ...]] = {
    ALPHA: (
        ("CPUManagerPolicyAlphaOptions", False, ()),
        ("ContainerStopSignals", False, ()),
        ("CrossNamespaceVolumeDataSource", False, ()),
        ("CustomCPUCFSQuotaPeriod", False, ()),
        ("DRAListTypeAttributes", False, ()),
        ("DRAResourcePoolStatus", False, ()),
        ("DRAWorkloadResourceClaims", False, ("GenericWorkload",)),
        ("GenericWorkload", False, ()),
        ("HPAScaleToZero", False, ()),
        ("ResourceHealthStatus", False, ()),
        ("QOSReserved", False, ()),
        ("StorageVersionAPI", False, ("APIServerIdentity",)),
        ("TopologyAwareWorkloadScheduling", False, ("GenericWorkload",)),
        ("VolumeLimitScaling", False, ()),
        ("WorkloadAwarePreemption", False, ("GangScheduling",)),
    ),
    BETA: (
        ("APIResponseCompression", True, ()),
        ("CPUManagerPolicyBetaOptions", True, ()),
        ("ClearingNominatedNodeNameAfterBinding", True, ()),
        ("ClusterTrustBundle", False, ()),
        ("ClusterTrustBundleProjection", False, ("ClusterTrustBundle",)),
        ("ConstrainedImpersonation", True, ()),
        ("ContainerRestartRules", True, ()),
        ("CoordinatedLeaderElection", False, ()),
        ("DRAConsumableCapacity", True, ()),
        ("DRADeviceBindingConditions", True, ("DRAResourceClaimDeviceStatus",)),
        ("DRADeviceTaintRules", False, ("DRADeviceTaints",)),
        ("DRADeviceTaints", True, ()),
        ("DRAExtendedResource", True, ()),
        ("DRAPartitionableDevices", True, ()),
        ("DRAResourceClaimDeviceStatus", True, ()),
        ("DRASchedulerFilterTimeout", True, ()),
        ("DisableCPUQuotaWithExclusiveCPUs", True, ()),
        ("EnvFiles", True, ()),
        ("HPAConfigurableTolerance", True, ()),
        ("HostnameOverride", True, ()),
        ("ImageVolume", True, ()),
        ("KubeletEnsureSecretPulledImages", True, ()),
        ("KubeletPodResourcesDynamicResources", True, ()),
        ("KubeletPodResourcesGet", True, ()),
        ("KubeletServiceAccountTokenForCredentialProviders", True, ()),
        ("MaxUnavailableStatefulSet", True, ()),
        ("MutablePodResourcesForSuspendedJobs", True, ()),
        ("MutableSchedulingDirectivesForSuspendedJobs", True, ()),
        ("PodCertificateRequest", False, ()),
        ("PodLevelResources", True, ()),
        ("PodTopologyLabelsAdmission", True, ()),
        ("RemoteRequestHeaderUID", True, ()),
        ("SELinuxChangePolicy", True, ()),
        ("StorageVersionMigrator", False, ()),
        ("UserNamespacesSupport", True, ()),
        ("WatchList", True, ()),
    ),
}

# Known, and asked by nothing here.
_ELSEWHERE: Mapping[tuple[str, bool], str] = {
    (ALPHA, False): (
        "APIServingWithRoutine AllowUnsafeMalformedObjectDeletion CBORServingAndStorage "
        "CSIVolumeHealth ClientsAllowCBOR ClientsPreferCBOR CloudControllerManagerWatchBasedRoutesReconciliation "
        "CloudControllerManagerWebhook DRANodeAllocatableResources EventedPLEG GangScheduling "
        "ImageVolumeWithDigest InPlacePodVerticalScalingExclusiveCPUs InPlacePodVerticalScalingExclusiveMemory "
        "KubeletInUserNamespace LoggingAlphaOptions MemoryQoS MutablePVNodeAffinity NativeHistograms "
        "PodAndContainerStatsFromCRI PodLevelResourceManagers PodLogsQuerySplitStreams ReduceDefaultCrashLoopBackOffDecay "
        "RelaxedServiceNameValidation RuntimeClassInImageCriApi "
        "ShardedListAndWatch StorageCapacityScoring StrictIPCIDRValidation TaintTolerationComparisonOperators "
        "TopologyManagerPolicyAlphaOptions UnknownVersionInteroperabilityProxy UserNamespacesHostNetworkSupport "
        "WindowsCPUAndMemoryAffinity WorkloadWithJob"
    ),
    (BETA, False): (
        "CRDObservedGenerationTracking ConcurrentWatchObjectDecode DeclarativeValidationTakeover "
        "LocalStorageCapacityIsolationFSQuotaMonitoring NodeLogQuery SELinuxMount SchedulerAsyncAPICalls "
        "WatchCacheInitializationPostStartHook"
    ),
    (BETA, True): (
        "APIServerIdentity AllowParsingUserUIDFromCertAuth AuthorizePodWebsocketUpgradeCreatePermission "
        "CSIServiceAccountTokenSecrets ComponentFlagz ComponentStatusz "
        "ContainerCheckpoint ContextualLogging DeclarativeValidation DeploymentReplicaSetTerminatingReplicas "
        "DetectCacheInconsistency ExternalServiceAccountTokenSigner GracefulNodeShutdown "
        "GracefulNodeShutdownBasedOnPodPriority InOrderInformers InOrderInformersBatchProcess "
        "InPlacePodLevelResourcesVerticalScaling KubeletCrashLoopBackOffMax "
        "KubeletFineGrainedAuthz KubeletPSI KubeletSeparateDiskGC "
        "ListFromCacheSnapshot LoggingBetaOptions "
        "MatchLabelKeysInPodTopologySpread MatchLabelKeysInPodTopologySpreadSelectorMerge MutableCSINodeAllocatableCount "
        "NodeDeclaredFeatures NominatedNodeNameForExpectation OpenAPIEnums OpportunisticBatching PodDeletionCost "
        "PodReadyToStartContainersCondition PortForwardWebsockets PreventStaticPodAPIReferences ProcMountType "
        "ReloadKubeletClientCAFile ReloadKubeletServerCertificateFile "
        "RestartAllContainersOnContainerExits RotateKubeletServerCertificate "
        "SELinuxMountReadWriteOncePod SchedulerAsyncPreemption SchedulerPopFromBackoffQ ServiceAccountNodeAudienceRestriction "
        "SizeBasedListCostEstimate StatefulSetSemanticRevisionComparison StorageVersionHash "
        "StructuredAuthenticationConfigurationEgressSelector StructuredAuthenticationConfigurationJWKSMetrics "
        "TokenRequestServiceAccountUIDValidation TopologyManagerPolicyBetaOptions TranslateStreamCloseWebsocketRequests "
        "UnauthenticatedHTTP2DOSMitigation WatchListClient WindowsGracefulNodeShutdown"
    ),
    (GA, True): ("DRAPrioritizedList TopologyManagerPolicyOptions"),
    (DEPRECATED, False): (
        "AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests ChangeContainerStatusOnKubeletRestart "
        "GitRepoVolumeDriver KMSv1 KubeletRegistrationGetOnExistsOnly SeparateCacheWatchRPC WindowsHostNetwork"
    ),
    (DEPRECATED, True): ("DisableNodeKubeProxyVersion KubeletPodResourcesListUseActivePods StorageNamespaceIndex"),
}

_LOCKED_ON = (  # stable, and no longer a choice
    "APIServerTracing AnonymousAuthConfigurableEndpoints AuthorizeNodeWithSelectors AuthorizeWithSelectors "
    "BtreeWatchCache CRDValidationRatcheting ConsistentListFromCache CustomResourceFieldSelectors DRAAdminAccess "
    "DisableAllocatorDualWrite DynamicResourceAllocation ExecProbeTimeout ImageMaximumGCAge InPlacePodVerticalScaling "
    "JobManagedBy JobPodReplacementPolicy KubeletCgroupDriverFromCRI KubeletTracing LogarithmicScaleDown "
    "MatchLabelKeysInPodAffinity MemoryManager MultiCIDRServiceAllocator MutatingAdmissionPolicy NFTablesProxyMode "
    "NodeInclusionPolicyInPodTopologySpread NodeSwap OrderedNamespaceDeletion PodLifecycleSleepAction "
    "PodLifecycleSleepActionAllowZero PodObservedGenerationTracking PodSchedulingReadiness PreferSameTrafficDistribution "
    "RecoverVolumeExpansionFailure RelaxedDNSSearchValidation RelaxedEnvironmentVariableValidation "
    "ResilientWatchCacheInitialization RetryGenerateName SchedulerQueueingHints SeparateTaintEvictionController "
    "ServiceAccountTokenJTI ServiceAccountTokenNodeBinding ServiceAccountTokenNodeBindingValidation "
    "ServiceAccountTokenPodNodeInfo StreamingCollectionEncodingToJSON StreamingCollectionEncodingToProtobuf "
    "StructuredAuthenticationConfiguration StructuredAuthorizationConfiguration SupplementalGroupsPolicy SystemdWatchdog "
    "TopologyAwareHints VolumeAttributesClass WinDSR WinOverlay"
)


def _table() -> tuple[Feature, ...]:
    here = [Feature(name, on, stage, here=True, needs=needs) for stage, rows in _HERE.items() for name, on, needs in rows]
    others = [Feature(name, on, stage) for (stage, on), names in _ELSEWHERE.items() for name in names.split()]
    locked = [Feature(name, True, GA, locked=True) for name in _LOCKED_ON.split()]
    locked.append(Feature("AllowOverwriteTerminationGracePeriodSeconds", False, DEPRECATED, locked=True))
    return tuple(sorted((*here, *others, *locked), key=lambda feature: feature.name))


FEATURES = _table()
DEFAULTS = gates(FEATURES, {})
_COMPONENT = "kube"  # what upstream calls all of its own daemons in the keys of the flag


def flag() -> click.Option:
    """``--feature-gates``, for every daemon: ``A=true,kube:B=false``, as often as one likes. The parsed value is ``Gates``."""
    return option("--feature-gates", multiple=True, default=(), callback=_read, show_default=False, help=described(FEATURES))


def _read(ctx: click.Context, param: click.Parameter, given: Iterable[str]) -> Gates:
    wishes: dict[str, str] = {}
    for text in given:
        for key, value in KEY_VALUES.convert(text, param, ctx).items():
            component, _, name = key.rpartition(":")
            if component not in ("", _COMPONENT):
                raise click.BadParameter(f"component not registered: {component}", ctx, param)
            wishes[name] = value
    try:
        return from_flag(wishes)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


def from_flag(wishes: Mapping[str, str]) -> Gates:
    """The gates that a ``--feature-gates`` value asks for. Raises ValueError, in upstream's words."""
    return gates(FEATURES, wishes)
