"""Versions and kinds that are off until ``--runtime-config`` turns them on: beta, alpha, and what upstream has removed.

Called by ``catalog`` with the stable kinds, of which many of these are other versions. ``served`` decides.
"""

from collections.abc import Sequence

from controlplane.apiserver.kinds.apiserverinternal.storageversion import StorageVersionStrategy
from controlplane.apiserver.kinds.certificates.clustertrustbundle import ClusterTrustBundleStrategy
from controlplane.apiserver.kinds.certificates.podcertificaterequest import PodCertificateRequestStrategy
from controlplane.apiserver.kinds.config import KindsConfig
from controlplane.apiserver.kinds.coordination.leasecandidate import LeaseCandidateStrategy
from controlplane.apiserver.kinds.discovery.endpointslice_v1beta1 import EndpointSliceV1beta1Strategy
from controlplane.apiserver.kinds.policy.poddisruptionbudget_v1beta1 import PodDisruptionBudgetV1beta1Strategy
from controlplane.apiserver.kinds.resource.devicetaintrule import DeviceTaintRuleStrategy
from controlplane.apiserver.kinds.resource.resourcepoolstatusrequest import ResourcePoolStatusRequestStrategy
from controlplane.apiserver.kinds.resource.v1beta1 import ClaimV1beta1Strategy, SliceV1beta1Strategy, TemplateV1beta1Strategy
from controlplane.apiserver.kinds.scheduling.podgroup import PodGroupStrategy
from controlplane.apiserver.kinds.scheduling.workload import WorkloadStrategy
from controlplane.apiserver.kinds.shared.versions import VersionView
from controlplane.apiserver.kinds.storagemigration.storageversionmigration import StorageVersionMigrationStrategy
from controlplane.apiserver.registry.strategy import Strategy

# (resource.group, version): the same fields under another version
_SAME = (
    ("mutatingadmissionpolicies.admissionregistration.k8s.io", "v1beta1"),
    ("mutatingadmissionpolicies.admissionregistration.k8s.io", "v1alpha1"),
    ("mutatingadmissionpolicybindings.admissionregistration.k8s.io", "v1beta1"),
    ("mutatingadmissionpolicybindings.admissionregistration.k8s.io", "v1alpha1"),
    ("ipaddresses.networking.k8s.io", "v1beta1"),
    ("servicecidrs.networking.k8s.io", "v1beta1"),
    ("volumeattributesclasses.storage.k8s.io", "v1beta1"),
    ("deviceclasses.resource.k8s.io", "v1beta2"),
    ("deviceclasses.resource.k8s.io", "v1beta1"),
    ("resourceclaims.resource.k8s.io", "v1beta2"),
    ("resourceclaimtemplates.resource.k8s.io", "v1beta2"),
    ("resourceslices.resource.k8s.io", "v1beta2"),
)


def optional(stable: Sequence[Strategy], config: KindsConfig) -> list[Strategy]:
    """``stable`` are the kinds whose other versions these are."""
    by_name = {one.info.gvr.group_resource: one for one in reversed(stable)}
    bundles, candidates, taints = ClusterTrustBundleStrategy(), LeaseCandidateStrategy(), DeviceTaintRuleStrategy()
    return [
        *(VersionView(by_name[name], version) for name, version in _SAME),
        ClaimV1beta1Strategy(by_name["resourceclaims.resource.k8s.io"], "v1beta1"),
        TemplateV1beta1Strategy(by_name["resourceclaimtemplates.resource.k8s.io"], "v1beta1"),
        SliceV1beta1Strategy(by_name["resourceslices.resource.k8s.io"], "v1beta1"),
        VersionView(by_name["cronjobs.batch"], "v1beta1", _removed("batch/v1beta1 CronJob", "batch/v1 CronJob")),
        PodDisruptionBudgetV1beta1Strategy(
            by_name["poddisruptionbudgets.policy"],
            "v1beta1",
            _removed("policy/v1beta1 PodDisruptionBudget", "policy/v1 PodDisruptionBudget"),
        ),
        EndpointSliceV1beta1Strategy(
            by_name["endpointslices.discovery.k8s.io"],
            "v1beta1",
            _removed("discovery.k8s.io/v1beta1 EndpointSlice", "discovery.k8s.io/v1 EndpointSlice"),
        ),
        bundles,
        VersionView(bundles, "v1alpha1"),
        PodCertificateRequestStrategy(),
        candidates,
        VersionView(candidates, "v1alpha2"),
        taints,
        VersionView(taints, "v1alpha3"),
        StorageVersionMigrationStrategy(),
        StorageVersionStrategy(),
        PodGroupStrategy(config.features),
        WorkloadStrategy(),
        ResourcePoolStatusRequestStrategy(),
    ]


def _removed(old: str, new: str) -> str:
    """All three went the same way."""
    return f"{old} is deprecated in v1.21+, unavailable in v1.25+; use {new}"
