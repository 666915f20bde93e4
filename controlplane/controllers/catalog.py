"""All controllers, by upstream's names: the one list from which the daemon starts them."""

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import Any

import click

from apimachinery.gvk import GroupVersionResource
from apimachinery.resources import (
    CLUSTER_TRUST_BUNDLES,
    POD_CERTIFICATE_REQUESTS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    STORAGE_VERSION_MIGRATIONS,
)
from component import config, logs
from component.featuregates import Gates
from component.features import DEFAULTS
from controlplane.controllers.attach_detach import AttachDetachController
from controlplane.controllers.bootstrap_signer import BootstrapSigner
from controlplane.controllers.cluster_trust_bundle_publisher import ClusterTrustBundlePublisher
from controlplane.controllers.clusterrole_aggregation import ClusterRoleAggregationController
from controlplane.controllers.controller import Controller, Environment
from controlplane.controllers.cronjob import CronJobController
from controlplane.controllers.csr_approving import CSRApprovingController
from controlplane.controllers.csr_cleaner import CSRCleanerController
from controlplane.controllers.csr_signing import SIGNERS, CSRSigningController
from controlplane.controllers.daemonset.controller import DaemonSetController
from controlplane.controllers.deployment.controller import DeploymentController
from controlplane.controllers.device_taint_eviction import DeviceTaintEvictionController
from controlplane.controllers.disruption import DisruptionController
from controlplane.controllers.endpoints import EndpointsController
from controlplane.controllers.endpointslice import EndpointSliceController
from controlplane.controllers.endpointslice_mirroring import EndpointSliceMirroringController
from controlplane.controllers.ephemeral_volume import EphemeralVolumeController
from controlplane.controllers.garbage_collector import GarbageCollector
from controlplane.controllers.horizontalpodautoscaler.controller import HorizontalPodAutoscalerController, Settings
from controlplane.controllers.job.controller import JobController
from controlplane.controllers.legacy_token_cleaner import LegacyTokenCleaner
from controlplane.controllers.lib.certificate_authority import CertificateAuthority
from controlplane.controllers.local_path import LocalPathProvisioner
from controlplane.controllers.namespace import NamespaceController
from controlplane.controllers.node_ipam import NodeIPAMController
from controlplane.controllers.node_lifecycle import NodeLifecycleController
from controlplane.controllers.persistentvolume.controller import PersistentVolumeBinder
from controlplane.controllers.pod_certificate_request_cleaner import PodCertificateRequestCleaner
from controlplane.controllers.pod_gc import PodGCController
from controlplane.controllers.podgroup_protection import POD_GROUPS, PodGroupProtection
from controlplane.controllers.replicaset import ReplicaSetController
from controlplane.controllers.replication_controller import ReplicationControllerController
from controlplane.controllers.resource_quota import ResourceQuotaController
from controlplane.controllers.resourceclaim import ResourceClaimController
from controlplane.controllers.resourcepoolstatusrequest import REQUESTS, ResourcePoolStatusRequestController
from controlplane.controllers.root_ca_publisher import RootCAPublisher
from controlplane.controllers.service_account import ServiceAccountController
from controlplane.controllers.service_cidr import ServiceCIDRController
from controlplane.controllers.serviceaccount_token import ServiceAccountTokenController, Signer
from controlplane.controllers.statefulset.controller import StatefulSetController
from controlplane.controllers.storageversion_gc import STORAGE_VERSIONS, StorageVersionGarbageCollector
from controlplane.controllers.storageversionmigrator.controller import StorageVersionMigrator
from controlplane.controllers.taint_eviction import TaintEvictionController
from controlplane.controllers.token_cleaner import TokenCleaner
from controlplane.controllers.ttl import TTLController
from controlplane.controllers.ttl_after_finished import TTLAfterFinishedController
from controlplane.controllers.validatingadmissionpolicy_status.controller import ValidatingAdmissionPolicyStatusController
from controlplane.controllers.volume_expand import VolumeExpander
from controlplane.controllers.volume_protection import ClaimProtection, VolumeProtection
from controlplane.controllers.volumeattributesclass_protection import VolumeAttributesClassProtection

_log = logs.get(__name__)
# Upstream's controllers that are not here, by name and alias: a command line that names them must still start.
_ABSENT = frozenset(
    [
        "cloud-node-lifecycle",
        "cloud-node-lifecycle-controller",
        "node-route-controller",
        "route",
        "selinux-warning-controller",
        "service",
        "service-lb-controller",
    ]
)
_TEMPLATES = {
    "hostPath": "pv_recycler_pod_template_filepath_hostpath",
    "nfs": "pv_recycler_pod_template_filepath_nfs",
}
# Controller to the service account it writes as, where that is called something else; upstream's names, of all its controllers.
_ACCOUNTS = {
    "serviceaccount-token-controller": "",  # makes what the others show: it writes as the manager itself
    "serviceaccount-controller": "service-account-controller",
    "root-ca-certificate-publisher-controller": "root-ca-cert-publisher",
    "kube-apiserver-serving-clustertrustbundle-publisher-controller": "kube-apiserver-serving-clustertrustbundle-publisher",
    "garbage-collector-controller": "generic-garbage-collector",
    "replicationcontroller-controller": "replication-controller",
    "daemonset-controller": "daemon-set-controller",
    "endpoints-controller": "endpoint-controller",
    "endpointslice-mirroring-controller": "endpointslicemirroring-controller",
    "pod-garbage-collector-controller": "pod-garbage-collector",
    "node-lifecycle-controller": "node-controller",
    "taint-eviction-controller": "node-controller",
    "node-ipam-controller": "node-controller",
    "node-route-controller": "route-controller",
    "persistentvolumeclaim-protection-controller": "pvc-protection-controller",
    "persistentvolume-protection-controller": "pv-protection-controller",
    "persistentvolume-binder-controller": "persistent-volume-binder",
    "persistentvolume-attach-detach-controller": "attachdetach-controller",
    "persistentvolume-expander-controller": "expand-controller",
    "certificatesigningrequest-approving-controller": "certificate-controller",
    "certificatesigningrequest-signing-controller": "certificate-controller",
    "certificatesigningrequest-cleaner-controller": "certificate-controller",
    "horizontal-pod-autoscaler-controller": "horizontal-pod-autoscaler",
    "resourceclaim-controller": "resource-claim-controller",
    "service-cidr-controller": "service-cidrs-controller",
    "service-lb-controller": "service-controller",
    "storageversion-garbage-collector-controller": "storage-version-garbage-collector",
    "token-cleaner-controller": "token-cleaner",
    "bootstrap-signer-controller": "bootstrap-signer",
    "legacy-serviceaccount-token-cleaner-controller": "legacy-service-account-token-cleaner",
}
Options = Mapping[str, Any]
Make = Callable[[Environment, Options], Controller | None]


@dataclass(frozen=True, slots=True)
class Descriptor:
    """``make`` returns None when the flags leave the controller without work. ``alias`` is the older, shorter name. Where a
    server does not have ``needs``, there is nothing to watch."""

    name: str
    alias: str
    make: Make
    by_default: bool = True
    needs: GroupVersionResource | None = None

    @property
    def account(self) -> str:
        """The service account in kube-system that bounds what the controller may do; empty for the manager's own identity."""
        return _ACCOUNTS.get(self.name, self.name)


def descriptors() -> list[Descriptor]:
    return [
        Descriptor("serviceaccount-token-controller", "serviceaccount-token", _serviceaccount_token),
        Descriptor("serviceaccount-controller", "serviceaccount", lambda env, flags: ServiceAccountController(env)),
        Descriptor("root-ca-certificate-publisher-controller", "root-ca-cert-publisher", _root_ca_publisher),
        Descriptor(
            "kube-apiserver-serving-clustertrustbundle-publisher-controller",
            "kube-apiserver-serving-clustertrustbundle-publisher",
            _cluster_trust_bundle_publisher,
            needs=CLUSTER_TRUST_BUNDLES,
        ),
        Descriptor(
            "podcertificaterequest-cleaner-controller",
            "podcertificaterequest-cleaner",
            lambda env, flags: PodCertificateRequestCleaner(env),
            needs=POD_CERTIFICATE_REQUESTS,
        ),
        Descriptor("namespace-controller", "namespace", _namespace),
        Descriptor("garbage-collector-controller", "garbagecollector", _garbage_collector),
        Descriptor("deployment-controller", "deployment", _deployment),
        Descriptor("replicaset-controller", "replicaset", _replicaset),
        Descriptor("replicationcontroller-controller", "replicationcontroller", _replication_controller),
        Descriptor("daemonset-controller", "daemonset", _daemonset),
        Descriptor("statefulset-controller", "statefulset", _statefulset),
        Descriptor("job-controller", "job", _job),
        Descriptor(
            "cronjob-controller", "cronjob", lambda env, flags: CronJobController(env, flags["concurrent_cron_job_syncs"])
        ),
        Descriptor("ttl-after-finished-controller", "ttl-after-finished", _ttl_after_finished),
        Descriptor("resourcequota-controller", "resourcequota", _resource_quota),
        Descriptor("horizontal-pod-autoscaler-controller", "horizontalpodautoscaling", _horizontal_pod_autoscaler),
        Descriptor("disruption-controller", "disruption", lambda env, flags: DisruptionController(env)),
        Descriptor("endpointslice-controller", "endpointslice", _endpointslice),
        Descriptor("endpoints-controller", "endpoint", _endpoints),
        Descriptor("endpointslice-mirroring-controller", "endpointslicemirroring", _endpointslice_mirroring),
        Descriptor("pod-garbage-collector-controller", "podgc", _pod_gc),
        Descriptor("ttl-controller", "ttl", lambda env, flags: TTLController(env)),
        Descriptor("node-lifecycle-controller", "nodelifecycle", _node_lifecycle),
        Descriptor("taint-eviction-controller", "taint-eviction", lambda env, flags: TaintEvictionController(env)),
        Descriptor("persistentvolumeclaim-protection-controller", "pvc-protection", lambda env, flags: ClaimProtection(env)),
        Descriptor("persistentvolume-protection-controller", "pv-protection", lambda env, flags: VolumeProtection(env)),
        Descriptor(
            "volumeattributesclass-protection-controller",
            "volumeattributesclass-protection",
            lambda env, flags: VolumeAttributesClassProtection(env),
        ),
        Descriptor("podgroup-protection-controller", "podgroup-protection", _podgroup_protection, needs=POD_GROUPS),
        Descriptor("service-cidr-controller", "service-cidr", lambda env, flags: ServiceCIDRController(env)),
        Descriptor(
            "storageversion-garbage-collector-controller", "storage-version-gc", _storageversion_gc, needs=STORAGE_VERSIONS
        ),
        Descriptor("persistentvolume-binder-controller", "persistentvolume-binder", _persistent_volume_binder),
        Descriptor("persistentvolume-attach-detach-controller", "attachdetach", _attach_detach),
        Descriptor("persistentvolume-expander-controller", "persistentvolume-expander", lambda env, flags: VolumeExpander(env)),
        Descriptor("ephemeral-volume-controller", "ephemeral-volume", _ephemeral_volume),
        Descriptor("resourceclaim-controller", "resource-claim-controller", _resource_claim, needs=RESOURCE_CLAIMS),
        Descriptor("resourcepoolstatusrequest-controller", "resourcepoolstatusrequest", _pool_status, needs=REQUESTS),
        Descriptor("device-taint-eviction-controller", "device-taint-eviction", _device_taint_eviction, needs=RESOURCE_SLICES),
        Descriptor("local-path-provisioner", "local-path", _local_path),
        Descriptor("node-ipam-controller", "nodeipam", _node_ipam),
        Descriptor(
            "certificatesigningrequest-approving-controller", "csrapproving", lambda env, flags: CSRApprovingController(env)
        ),
        Descriptor(
            "clusterrole-aggregation-controller",
            "clusterrole-aggregation",
            lambda env, flags: ClusterRoleAggregationController(env),
        ),
        Descriptor(
            "validatingadmissionpolicy-status-controller",
            "validatingadmissionpolicy-status",
            _validating_admission_policy_status,
        ),
        Descriptor("certificatesigningrequest-signing-controller", "csrsigning", _csr_signing),
        Descriptor(
            "legacy-serviceaccount-token-cleaner-controller",
            "legacy-service-account-token-cleaner",
            lambda env, flags: LegacyTokenCleaner(env, flags["legacy_service_account_token_clean_up_period"]),
        ),
        Descriptor("storage-version-migrator-controller", "svm", _storage_version_migrator, needs=STORAGE_VERSION_MIGRATIONS),
        Descriptor("bootstrap-signer-controller", "bootstrapsigner", lambda env, flags: BootstrapSigner(env), by_default=False),
        Descriptor("token-cleaner-controller", "tokencleaner", lambda env, flags: TokenCleaner(env), by_default=False),
        Descriptor("certificatesigningrequest-cleaner-controller", "csrcleaner", lambda env, flags: CSRCleanerController(env)),
    ]


def check(flags: Options) -> None:
    """Raises click.UsageError for flags that no controller could work with, before anything starts."""
    if flags.get("root_ca_file"):
        _root_bundle(flags["root_ca_file"])
    _authorities(flags)
    _token_signer(flags)
    if flags["allocate_node_cidrs"] and not flags["cluster_cidr"]:
        raise click.UsageError("--allocate-node-cidrs needs --cluster-cidr, the range to allocate from")
    _recycler_templates(flags)
    if not str(flags.get("local_path_dir") or "/").startswith("/"):
        raise click.UsageError("--local-path-dir must be an absolute path")
    for name in ("cluster_cidr", "service_cluster_ip_range"):
        for text in filter(None, flags[name].split(",")):
            try:
                ipaddress.ip_network(text.strip(), strict=False)
            except ValueError as error:
                raise click.UsageError(f"--{name.replace('_', '-')}: {error}") from None


def _root_bundle(path: Path) -> str:
    try:
        bundle = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"--root-ca-file {path}: {getattr(error, 'strerror', None) or 'not a text file'}") from None
    if "-----BEGIN CERTIFICATE-----" not in bundle:
        raise click.UsageError(f"--root-ca-file {path}: holds no certificate in PEM form")
    return bundle


def _serviceaccount_token(env: Environment, flags: Options) -> Controller | None:
    signer = _token_signer(flags)
    path = flags.get("root_ca_file")
    return ServiceAccountTokenController(env, signer, _root_bundle(path) if path else "") if signer is not None else None


def _token_signer(flags: Options) -> Signer | None:
    path = flags.get("service_account_private_key_file")
    if path is None:
        return None
    try:
        return Signer(path)
    except (OSError, ValueError) as error:
        raise click.UsageError(f"--service-account-private-key-file: {error}") from None


def _authorities(flags: Options) -> dict[str, CertificateAuthority]:
    """Signer name to its key: one pair for all, or each its own; as upstream, the pair for all is not for those that lack one."""
    general = _signing_pair(flags, "cluster-signing")
    special = {name: _signing_pair(flags, f"cluster-signing-{word}") for name, word in SIGNERS.items()}
    if any(special.values()):
        if general is not None:
            text = "--cluster-signing-cert-file and the flags for single signers exclude each other"
            raise click.UsageError(text)
        return {name: found for name, found in special.items() if found is not None}
    return dict.fromkeys(SIGNERS, general) if general is not None else {}


def _signing_pair(flags: Options, prefix: str) -> CertificateAuthority | None:
    names = [f"{prefix}-{part}-file" for part in ("cert", "key")]
    certificate, key = (flags.get(name.replace("-", "_")) for name in names)
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise click.UsageError(f"--{names[0]} and --{names[1]} go together: give both, or neither")
    try:
        return CertificateAuthority(certificate, key)
    except (OSError, ValueError) as error:
        raise click.UsageError(f"--{names[0]}: {error}") from None


def _csr_signing(env: Environment, flags: Options) -> Controller | None:
    authorities = _authorities(flags)
    lifetime = timedelta(seconds=flags["cluster_signing_duration"])
    return CSRSigningController(env, authorities, lifetime) if authorities else None


def _root_ca_publisher(env: Environment, flags: Options) -> Controller | None:
    path = flags.get("root_ca_file")
    return RootCAPublisher(env, _root_bundle(path)) if path else None


def _cluster_trust_bundle_publisher(env: Environment, flags: Options) -> Controller | None:
    path = flags.get("root_ca_file")
    return ClusterTrustBundlePublisher(env, _root_bundle(path)) if path else None


def _namespace(env: Environment, flags: Options) -> Controller:
    return NamespaceController(env, flags["concurrent_namespace_syncs"])


def _garbage_collector(env: Environment, flags: Options) -> Controller | None:
    return GarbageCollector(env, flags["concurrent_gc_syncs"]) if flags["enable_garbage_collector"] else None


def _deployment(env: Environment, flags: Options) -> Controller:
    return DeploymentController(env, flags["concurrent_deployment_syncs"])


def _replicaset(env: Environment, flags: Options) -> Controller:
    return ReplicaSetController(env, flags["concurrent_replicaset_syncs"])


def _replication_controller(env: Environment, flags: Options) -> Controller:
    return ReplicationControllerController(env, flags["concurrent_rc_syncs"])


def _daemonset(env: Environment, flags: Options) -> Controller:
    return DaemonSetController(env, flags["concurrent_daemonset_syncs"])


def _statefulset(env: Environment, flags: Options) -> Controller:
    return StatefulSetController(env, flags["concurrent_statefulset_syncs"])


def _job(env: Environment, flags: Options) -> Controller:
    return JobController(env, flags["concurrent_job_syncs"])


def _cronjob(env: Environment, flags: Options) -> Controller:
    return CronJobController(env, flags["concurrent_cron_job_syncs"])


def _resource_quota(env: Environment, flags: Options) -> Controller:
    return ResourceQuotaController(env, flags["concurrent_resource_quota_syncs"], flags["resource_quota_sync_period"])


def _horizontal_pod_autoscaler(env: Environment, flags: Options) -> Controller:
    gates: Gates = flags.get("feature_gates") or DEFAULTS
    settings = Settings(
        sync_period=flags["horizontal_pod_autoscaler_sync_period"],
        downscale_stabilization=flags["horizontal_pod_autoscaler_downscale_stabilization"],
        tolerance=flags["horizontal_pod_autoscaler_tolerance"],
        cpu_initialization_period=flags["horizontal_pod_autoscaler_cpu_initialization_period"],
        initial_readiness_delay=flags["horizontal_pod_autoscaler_initial_readiness_delay"],
        own_tolerance=gates.enabled("HPAConfigurableTolerance"),
        pod_level=gates.enabled("PodLevelResources"),
    )
    return HorizontalPodAutoscalerController(env, settings, flags["concurrent_horizontal_pod_autoscaler_syncs"])


def _endpointslice(env: Environment, flags: Options) -> Controller:
    return EndpointSliceController(env, flags["concurrent_service_endpoint_syncs"])


def _endpoints(env: Environment, flags: Options) -> Controller:
    return EndpointsController(env, flags["concurrent_endpoint_syncs"])


def _endpointslice_mirroring(env: Environment, flags: Options) -> Controller:
    return EndpointSliceMirroringController(env, flags["mirroring_concurrent_service_endpoint_syncs"])


def _pod_gc(env: Environment, flags: Options) -> Controller:
    return PodGCController(env, flags["terminated_pod_gc_threshold"])


def _node_lifecycle(env: Environment, flags: Options) -> Controller:
    return NodeLifecycleController(env, flags["node_monitor_grace_period"], flags["node_startup_grace_period"])


def _persistent_volume_binder(env: Environment, flags: Options) -> Controller:
    return PersistentVolumeBinder(env, _recycler_templates(flags))


def _recycler_templates(flags: Options) -> dict[str, Any]:
    found = {}
    for kind, option in _TEMPLATES.items():
        if path := flags.get(option):
            pod = config.read(str(path), "Pod")
            if not (pod.get("spec") or {}).get("containers"):
                raise click.UsageError(f"--{option.replace('_', '-')} {path}: spec.containers is missing")
            found[kind] = {"apiVersion": "v1", "kind": "Pod", **pod}
    return found


def _attach_detach(env: Environment, flags: Options) -> Controller:
    return AttachDetachController(env, force_after=flags["attach_detach_force_after"])


def _validating_admission_policy_status(env: Environment, flags: Options) -> Controller:
    return ValidatingAdmissionPolicyStatusController(env, flags["concurrent_validating_admission_policy_status_syncs"])


def _ephemeral_volume(env: Environment, flags: Options) -> Controller:
    return EphemeralVolumeController(env, flags["concurrent_ephemeralvolume_syncs"])


def _resource_claim(env: Environment, flags: Options) -> Controller:
    return ResourceClaimController(env, flags["concurrent_resource_claim_syncs"])


def _device_taint_eviction(env: Environment, flags: Options) -> Controller | None:
    gates: Gates = flags.get("feature_gates") or DEFAULTS
    if not gates.enabled("DRADeviceTaints"):
        return None
    return DeviceTaintEvictionController(env, with_rules=gates.enabled("DRADeviceTaintRules"))


def _storage_version_migrator(env: Environment, flags: Options) -> Controller | None:
    gates: Gates = flags.get("feature_gates") or DEFAULTS
    return StorageVersionMigrator(env) if gates.enabled("StorageVersionMigrator") else None


def _ttl_after_finished(env: Environment, flags: Options) -> Controller:
    return TTLAfterFinishedController(env, flags["concurrent_ttl_after_finished_syncs"])


def _podgroup_protection(env: Environment, flags: Options) -> Controller | None:
    gates: Gates = flags.get("feature_gates") or DEFAULTS
    return PodGroupProtection(env) if gates.enabled("GenericWorkload") else None


def _storageversion_gc(env: Environment, flags: Options) -> Controller | None:
    gates: Gates = flags.get("feature_gates") or DEFAULTS
    return StorageVersionGarbageCollector(env) if gates.enabled("StorageVersionAPI") else None


def _pool_status(env: Environment, flags: Options) -> Controller | None:
    gates: Gates = flags.get("feature_gates") or DEFAULTS
    return ResourcePoolStatusRequestController(env) if gates.enabled("DRAResourcePoolStatus") else None


def _local_path(env: Environment, flags: Options) -> Controller | None:
    root = flags.get("local_path_dir")
    return LocalPathProvisioner(env, PurePosixPath(root)) if root else None


def _node_ipam(env: Environment, flags: Options) -> Controller | None:
    if not flags["allocate_node_cidrs"]:
        return None
    clusters = [each.strip() for each in (flags.get("cluster_cidr") or "").split(",") if each.strip()]
    if not clusters:
        raise click.UsageError("--allocate-node-cidrs needs --cluster-cidr, the range to allocate from")
    size = flags.get("node_cidr_mask_size")
    masks = (size or flags.get("node_cidr_mask_size_ipv4") or 24, flags.get("node_cidr_mask_size_ipv6") or 64)
    services = [each.strip() for each in (flags.get("service_cluster_ip_range") or "").split(",") if each.strip()]
    try:
        return NodeIPAMController(env, clusters, masks, services)
    except ValueError as error:
        raise click.UsageError(f"--cluster-cidr {flags['cluster_cidr']}: {error}") from None


def chosen(wanted: Sequence[str]) -> list[Descriptor]:
    """Read ``--controllers``: ``*`` for all that run by default, ``name`` for one more, ``-name`` for one less.

    Raises click.UsageError, naming it, for a name that no controller has.
    """
    known = descriptors()
    names = {alias: each.name for each in known for alias in (each.name, each.alias)}
    on: set[str] = set()
    off: set[str] = set()
    everything = False
    for word in wanted:
        if word == "*":
            everything = True
            continue
        name = word.removeprefix("-")
        if name in _ABSENT and name not in names:
            if not word.startswith("-"):
                _log.warning("This controller of upstream's is not implemented; going on without it", controller=name)
            continue
        if name not in names:
            raise click.UsageError(f'--controllers: "{name}" is not in the list of known controllers: {", ".join(sorted(names))}')
        (off if word.startswith("-") else on).add(names[name])
    return [each for each in known if each.name in on or (everything and each.by_default and each.name not in off)]
