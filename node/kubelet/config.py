"""What a kubelet is told: upstream's KubeletConfiguration fields that this one obeys, merged with its flags.

``__main__`` reads the file and the flags into one :class:`KubeletConfig`; everything else gets that value. A field that
upstream knows and this kubelet does not is refused by name: a setting that is silently ignored is worse than an error.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from apimachinery import quantity
from component import features, tls
from component.featuregates import Gates
from component.flags import parse_duration
from node.kubelet import config_foreign, config_resources, sysctl, userns
from node.kubelet.cm import cpuset
from node.kubelet.eviction import thresholds
from node.kubelet.images import pull_records
from node.kubelet.shutdown import plan as shutdown

API_VERSION = "kubelet.config.k8s.io/v1beta1"


class ConfigError(ValueError):
    """The configuration cannot be used; the text names the field."""


@dataclass(frozen=True, slots=True)
class KubeletConfig:
    """Defaults are upstream's, except that neither cgroup v1 nor swap keeps this kubelet from starting."""

    node_name: str = ""
    address: str = "0.0.0.0"  # noqa: S104 - upstream's default
    port: int = 10250
    healthz_bind_address: str = "127.0.0.1"
    healthz_port: int = 10248
    root_dir: Path = Path("/var/lib/kubelet")
    pod_logs_dir: Path = Path("/var/log/pods")
    cert_dir: Path | None = None
    tls_cert_file: Path | None = None
    tls_private_key_file: Path | None = None
    rotate_certificates: bool = False  # the client certificate, through the cluster
    server_tls_bootstrap: bool = False  # the serving certificate, through the cluster
    tls_min_version: str = ""
    tls_cipher_suites: tuple[str, ...] = ()
    client_ca_file: Path | None = None
    anonymous_auth: bool = False
    webhook_authentication: bool = True
    token_cache_ttl: float = 120.0  # how long the API server's word on a token counts
    authorized_cache_ttl: float = 300.0  # and on what somebody may do
    unauthorized_cache_ttl: float = 30.0
    features: Gates = features.DEFAULTS
    ignored: tuple[str, ...] = ()  # what the file tunes that is not here, for the log
    authorization_mode: str = "Webhook"
    runtime_endpoint: str = "unix:///run/containerd/containerd.sock"
    image_endpoint: str = ""
    node_ip: str = ""
    pod_cidr: str = ""
    cluster_dns: tuple[str, ...] = ()
    cluster_domain: str = ""
    resolv_conf: Path | None = Path("/etc/resolv.conf")
    cgroup_root: str = ""
    cgroup_driver: str = "cgroupfs"
    cgroups_per_qos: bool = True
    cpu_cfs_quota: bool = True
    fail_swap_on: bool = False
    fail_cgroup_v1: bool = False
    single_process_oom_kill: bool | None = None  # None: true on cgroup v1, which knows nothing else, false on v2
    max_pods: int = 110
    pod_pids_limit: int = -1
    node_labels: Mapping[str, str] = field(default_factory=dict)
    register_node: bool = True
    register_with_taints: tuple[Mapping[str, str], ...] = ()
    provider_id: str = ""
    static_pod_path: Path | None = None
    static_pod_url: str = ""
    static_pod_url_header: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    http_check_frequency: float = 20.0
    sync_frequency: float = 60.0
    file_check_frequency: float = 20.0
    node_status_update_frequency: float = 10.0
    node_status_report_frequency: float = 300.0
    node_lease_duration_seconds: int = 40
    container_log_max_size: int = 10 << 20
    container_log_max_files: int = 5
    allowed_unsafe_sysctls: tuple[str, ...] = ()
    seccomp_default: bool = False
    user_namespace_ids_per_pod: int = userns.UNIT
    max_container_restart_period: float = 300.0  # the longest wait before a container that keeps failing is restarted
    registry_pull_qps: int = 5  # 0: no limit
    registry_burst: int = 10
    image_credential_provider_config: Path | None = None
    image_credential_provider_bin_dir: Path | None = None
    image_pull_credentials_verification_policy: str = "NeverVerifyPreloadedImages"
    preloaded_images_verification_allowlist: tuple[str, ...] = ()
    serialize_image_pulls: bool = True
    max_parallel_image_pulls: int = 0
    cni_conf_dir: Path | None = Path("/etc/cni/net.d")
    cni_bridge: str = "cni0"
    pod_routes: str = "none"
    local_path_dir: Path | None = None
    volume_stats_period: float = 60.0
    system_reserved: Mapping[str, str] = field(default_factory=dict)
    kube_reserved: Mapping[str, str] = field(default_factory=dict)
    system_reserved_cgroup: str = ""
    kube_reserved_cgroup: str = ""
    reserved_system_cpus: str = ""
    enforce_node_allocatable: tuple[str, ...] = ("pods",)
    qos_reserved: Mapping[str, str] = field(default_factory=dict)
    cpu_cfs_quota_period: float = 0.1
    swap_behavior: str = ""
    cpu_manager_policy: str = "none"
    cpu_manager_policy_options: Mapping[str, str] = field(default_factory=dict)
    cpu_manager_reconcile_period: float = 10.0
    memory_manager_policy: str = "None"
    reserved_memory: tuple[Mapping[str, Any], ...] = ()
    topology_manager_policy: str = "none"
    topology_manager_scope: str = "container"
    topology_manager_policy_options: Mapping[str, str] = field(default_factory=dict)
    eviction_hard: Mapping[str, str] = field(default_factory=lambda: dict(thresholds.DEFAULT_HARD))
    eviction_soft: Mapping[str, str] = field(default_factory=dict)
    eviction_soft_grace_period: Mapping[str, str] = field(default_factory=dict)
    eviction_minimum_reclaim: Mapping[str, str] = field(default_factory=dict)
    eviction_pressure_transition_period: float = 300.0
    eviction_max_pod_grace_period: int = 0
    merge_default_eviction_settings: bool = False
    local_storage_capacity_isolation: bool = True
    enable_system_log_handler: bool = True
    image_gc_high_threshold_percent: int = 85
    image_gc_low_threshold_percent: int = 80
    image_minimum_gc_age: float = 120.0
    image_maximum_gc_age: float = 0.0
    shutdown_grace_period: float = 0.0
    shutdown_grace_period_critical_pods: float = 0.0
    shutdown_grace_period_by_pod_priority: tuple[shutdown.Group, ...] = ()

    @property
    def certificates(self) -> Path:
        """Where the kubelet keeps certificates of its own."""
        return self.cert_dir or self.root_dir / "pki"

    def reservations(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """What is kept for the system and what for Kubernetes. CPUs that are reserved by number are the system's, and are all."""
        if not self.reserved_system_cpus:
            return self.system_reserved, self.kube_reserved
        count = str(len(cpuset.parse(self.reserved_system_cpus)))
        return {**self.system_reserved, "cpu": count}, {name: text for name, text in self.kube_reserved.items() if name != "cpu"}

    def pod_dir(self, uid: str) -> Path:
        return self.root_dir / "pods" / uid

    def shutdown_groups(self) -> tuple[shutdown.Group, ...]:
        """Who ends when before the machine stops; empty: pods are not ended."""
        total, critical = int(self.shutdown_grace_period), int(self.shutdown_grace_period_critical_pods)
        return shutdown.groups_of(total, critical, self.shutdown_grace_period_by_pod_priority)

    def thresholds(self) -> tuple[thresholds.Threshold, ...]:
        """The eviction thresholds in force. Raises ThresholdError, which :func:`validate` has ruled out."""
        hard = {**thresholds.DEFAULT_HARD, **self.eviction_hard} if self.merge_default_eviction_settings else self.eviction_hard
        return thresholds.parse(hard, self.eviction_soft, self.eviction_soft_grace_period, self.eviction_minimum_reclaim)


@dataclass(frozen=True, slots=True)
class _Field:
    attribute: str
    read: Any


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"must be a string, not {type(value).__name__}")
    return value


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigError(f"must be a whole number, not {value!r}")
    return value


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"must be true or false, not {value!r}")
    return value


def _path(value: Any) -> Path:
    return Path(_text(value))


def _duration(value: Any) -> float:
    return parse_duration(_text(value))


def _size(value: Any) -> int:
    return quantity.parse(_text(value)).value()


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ConfigError("must be a list of strings")
    return tuple(_text(item) for item in value)


def _mapping(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ConfigError("must be a mapping")
    return {str(key): _text(item) for key, item in value.items()}


def _headers(value: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        raise ConfigError("must be a mapping of lists")
    return {str(key): _texts(item) for key, item in value.items()}


def _taints(value: Any) -> tuple[Mapping[str, str], ...]:
    if not isinstance(value, list) or not all(
        isinstance(item, dict) and item.get("key") and item.get("effect") for item in value
    ):
        raise ConfigError("must be a list of taints with key and effect")
    return tuple(value)


def _features(value: Any) -> Gates:
    if not isinstance(value, dict):
        raise ConfigError("must be a mapping")
    return features.from_flag({str(name): str(wish).lower() for name, wish in value.items()})


def _groups(value: Any) -> tuple[shutdown.Group, ...]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ConfigError("must be a list of priority and shutdownGracePeriodSeconds")
    found = []
    for item in value:
        if unknown := set(item) - {"priority", "shutdownGracePeriodSeconds"}:
            raise ConfigError(f"unknown field {sorted(unknown)[0]!r}")
        found.append(shutdown.Group(_whole(item.get("priority", 0)), _whole(item.get("shutdownGracePeriodSeconds", 0))))
    return tuple(found)


_FIELDS = {
    "address": _Field("address", _text),
    "port": _Field("port", _whole),
    "healthzBindAddress": _Field("healthz_bind_address", _text),
    "healthzPort": _Field("healthz_port", _whole),
    "podLogsDir": _Field("pod_logs_dir", _path),
    "tlsCertFile": _Field("tls_cert_file", _path),
    "tlsPrivateKeyFile": _Field("tls_private_key_file", _path),
    "rotateCertificates": _Field("rotate_certificates", _truth),
    "serverTLSBootstrap": _Field("server_tls_bootstrap", _truth),
    "tlsMinVersion": _Field("tls_min_version", _text),
    "tlsCipherSuites": _Field("tls_cipher_suites", _texts),
    "authentication.anonymous.enabled": _Field("anonymous_auth", _truth),
    "authentication.webhook.enabled": _Field("webhook_authentication", _truth),
    "authentication.webhook.cacheTTL": _Field("token_cache_ttl", _duration),
    "authentication.x509.clientCAFile": _Field("client_ca_file", _path),
    "authorization.webhook.cacheAuthorizedTTL": _Field("authorized_cache_ttl", _duration),
    "authorization.webhook.cacheUnauthorizedTTL": _Field("unauthorized_cache_ttl", _duration),
    "featureGates": _Field("features", _features),
    "authorization.mode": _Field("authorization_mode", _text),
    "containerRuntimeEndpoint": _Field("runtime_endpoint", _text),
    "imageServiceEndpoint": _Field("image_endpoint", _text),
    "podCIDR": _Field("pod_cidr", _text),
    "clusterDNS": _Field("cluster_dns", _texts),
    "clusterDomain": _Field("cluster_domain", _text),
    "resolvConf": _Field("resolv_conf", _path),
    "cgroupRoot": _Field("cgroup_root", _text),
    "cgroupDriver": _Field("cgroup_driver", _text),
    "cgroupsPerQOS": _Field("cgroups_per_qos", _truth),
    "cpuCFSQuota": _Field("cpu_cfs_quota", _truth),
    "failSwapOn": _Field("fail_swap_on", _truth),
    "failCgroupV1": _Field("fail_cgroup_v1", _truth),
    "singleProcessOOMKill": _Field("single_process_oom_kill", _truth),
    "maxPods": _Field("max_pods", _whole),
    "podPidsLimit": _Field("pod_pids_limit", _whole),
    "registerNode": _Field("register_node", _truth),
    "registerWithTaints": _Field("register_with_taints", _taints),
    "providerID": _Field("provider_id", _text),
    "staticPodPath": _Field("static_pod_path", _path),
    "staticPodURL": _Field("static_pod_url", _text),
    "staticPodURLHeader": _Field("static_pod_url_header", _headers),
    "httpCheckFrequency": _Field("http_check_frequency", _duration),
    "allowedUnsafeSysctls": _Field("allowed_unsafe_sysctls", _texts),
    "userNamespaces.idsPerPod": _Field("user_namespace_ids_per_pod", _whole),
    "seccompDefault": _Field("seccomp_default", _truth),
    "crashLoopBackOff.maxContainerRestartPeriod": _Field("max_container_restart_period", _duration),
    "imagePullCredentialsVerificationPolicy": _Field("image_pull_credentials_verification_policy", _text),
    "preloadedImagesVerificationAllowlist": _Field("preloaded_images_verification_allowlist", _texts),
    "registryPullQPS": _Field("registry_pull_qps", _whole),
    "registryBurst": _Field("registry_burst", _whole),
    "syncFrequency": _Field("sync_frequency", _duration),
    "fileCheckFrequency": _Field("file_check_frequency", _duration),
    "nodeStatusUpdateFrequency": _Field("node_status_update_frequency", _duration),
    "nodeStatusReportFrequency": _Field("node_status_report_frequency", _duration),
    "nodeLeaseDurationSeconds": _Field("node_lease_duration_seconds", _whole),
    "containerLogMaxSize": _Field("container_log_max_size", _size),
    "containerLogMaxFiles": _Field("container_log_max_files", _whole),
    "serializeImagePulls": _Field("serialize_image_pulls", _truth),
    "maxParallelImagePulls": _Field("max_parallel_image_pulls", _whole),
    "volumeStatsAggPeriod": _Field("volume_stats_period", _duration),
    "systemReserved": _Field("system_reserved", _mapping),
    "kubeReserved": _Field("kube_reserved", _mapping),
    "systemReservedCgroup": _Field("system_reserved_cgroup", _text),
    "kubeReservedCgroup": _Field("kube_reserved_cgroup", _text),
    "reservedSystemCPUs": _Field("reserved_system_cpus", _text),
    "enforceNodeAllocatable": _Field("enforce_node_allocatable", _texts),
    "qosReserved": _Field("qos_reserved", _mapping),
    "cpuCFSQuotaPeriod": _Field("cpu_cfs_quota_period", _duration),
    "memorySwap.swapBehavior": _Field("swap_behavior", _text),
    "cpuManagerPolicy": _Field("cpu_manager_policy", _text),
    "cpuManagerPolicyOptions": _Field("cpu_manager_policy_options", _mapping),
    "cpuManagerReconcilePeriod": _Field("cpu_manager_reconcile_period", _duration),
    "memoryManagerPolicy": _Field("memory_manager_policy", _text),
    "reservedMemory": _Field("reserved_memory", config_resources.reserved_memory),
    "topologyManagerPolicy": _Field("topology_manager_policy", _text),
    "topologyManagerScope": _Field("topology_manager_scope", _text),
    "topologyManagerPolicyOptions": _Field("topology_manager_policy_options", _mapping),
    "evictionHard": _Field("eviction_hard", _mapping),
    "evictionSoft": _Field("eviction_soft", _mapping),
    "evictionSoftGracePeriod": _Field("eviction_soft_grace_period", _mapping),
    "evictionMinimumReclaim": _Field("eviction_minimum_reclaim", _mapping),
    "evictionPressureTransitionPeriod": _Field("eviction_pressure_transition_period", _duration),
    "evictionMaxPodGracePeriod": _Field("eviction_max_pod_grace_period", _whole),
    "mergeDefaultEvictionSettings": _Field("merge_default_eviction_settings", _truth),
    "localStorageCapacityIsolation": _Field("local_storage_capacity_isolation", _truth),
    "enableSystemLogHandler": _Field("enable_system_log_handler", _truth),
    "imageGCHighThresholdPercent": _Field("image_gc_high_threshold_percent", _whole),
    "imageGCLowThresholdPercent": _Field("image_gc_low_threshold_percent", _whole),
    "imageMinimumGCAge": _Field("image_minimum_gc_age", _duration),
    "imageMaximumGCAge": _Field("image_maximum_gc_age", _duration),
    "shutdownGracePeriod": _Field("shutdown_grace_period", _duration),
    "shutdownGracePeriodCriticalPods": _Field("shutdown_grace_period_critical_pods", _duration),
    "shutdownGracePeriodByPodPriority": _Field("shutdown_grace_period_by_pod_priority", _groups),
}
_NESTED = {path.rpartition(".")[0] for path in _FIELDS if "." in path} | {"authentication", "authorization"}
# Where upstream takes zero for "not said": a file with all fields written out, as kubeadm makes it, means the defaults.
_ZERO_IS_DEFAULT = frozenset(
    {
        *("address", "port", "healthzBindAddress", "podLogsDir", "containerRuntimeEndpoint", "cgroupDriver", "maxPods"),
        *(
            "imagePullCredentialsVerificationPolicy",
            "httpCheckFrequency",
            "registryBurst",
            "crashLoopBackOff.maxContainerRestartPeriod",
        ),
        *("syncFrequency", "fileCheckFrequency", "nodeStatusUpdateFrequency", "nodeStatusReportFrequency"),
        *("nodeLeaseDurationSeconds", "containerLogMaxSize", "imageMinimumGCAge", "evictionPressureTransitionPeriod"),
        *("authentication.webhook.cacheTTL", "authorization.webhook.cacheAuthorizedTTL"),
        *("authorization.webhook.cacheUnauthorizedTTL", "authorization.mode", "authentication.x509.clientCAFile"),
        *("tlsCertFile", "tlsPrivateKeyFile", "staticPodPath"),
        *("cpuCFSQuotaPeriod", "cpuManagerPolicy", "cpuManagerReconcilePeriod", "memoryManagerPolicy", "reservedMemory"),
        *("topologyManagerPolicy", "topologyManagerScope", "cpuManagerPolicyOptions", "topologyManagerPolicyOptions"),
    }
)


def parse(text: str) -> KubeletConfig:
    """Read a KubeletConfiguration. Raises ConfigError that names every field at fault."""
    config = understood(load(text))
    validate(config)
    return config


def load(text: str) -> dict[str, Any]:
    """The fields of a KubeletConfiguration, not yet understood. Raises ConfigError for anything else."""
    try:
        document = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise ConfigError(f"not YAML: {error}") from None
    if not isinstance(document, dict):
        raise ConfigError("not a mapping")
    kind = (document.pop("apiVersion", ""), document.pop("kind", ""))
    if kind != (API_VERSION, "KubeletConfiguration"):
        raise ConfigError(
            f"expected kind KubeletConfiguration of {API_VERSION}, found {kind[1] or 'none'} of {kind[0] or 'none'}"
        )
    return document


def read_folder(folder: Path, base: Mapping[str, Any]) -> dict[str, Any]:
    """``--config-dir``: every ``*.conf`` below ``folder``, by name, over what there is; mappings are merged, lists replaced.

    Raises ConfigError that names the file.
    """
    if not folder.is_dir():
        raise ConfigError(f"--config-dir {folder}: no such folder")
    document = dict(base)
    for path in sorted(folder.rglob("*.conf")):
        try:
            document = config_foreign.merged(document, load(path.read_text()))
        except (ConfigError, OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"failed to load kubelet config file {path}: {error}") from None
    return document


def understood(document: Mapping[str, Any]) -> KubeletConfig:
    """The configuration that a document's fields say, not yet validated: flags may change it. Raises ConfigError that names
    every field at fault."""
    problems: list[str] = []
    values = dict(_read(document, "", problems))
    if problems:
        raise ConfigError("strict decoding error: " + ", ".join(problems))
    return replace(KubeletConfig(), ignored=tuple(config_foreign.ignored(document)), **values)


def _read(document: Mapping[str, Any], prefix: str, problems: list[str]) -> Sequence[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in document.items():
        path = f"{prefix}{key}"
        known = _FIELDS.get(path)
        if known is not None:
            if value is None or (path in _ZERO_IS_DEFAULT and config_foreign.is_nothing(value)):
                continue
            try:
                found.append((known.attribute, known.read(value)))
            except ValueError as error:
                problems.append(f"{path}: {error}")
        elif path in _NESTED and isinstance(value, dict):
            found += _read(value, f"{path}.", problems)
        elif path in config_foreign.NESTED and isinstance(value, dict):
            problems += filter(None, (config_foreign.problem(f"{path}.{name}", inner) for name, inner in value.items()))
        elif (why := config_foreign.problem(path, value)) is not None:
            problems.append(why)
    return found


def validate(config: KubeletConfig) -> None:
    """Raise ConfigError for values that do not fit together."""
    if config.cgroup_driver not in ("cgroupfs", "systemd"):
        raise ConfigError(f"cgroupDriver must be cgroupfs or systemd, not {config.cgroup_driver!r}")
    if config.authorization_mode != "Webhook":
        raise ConfigError(f"authorization.mode must be Webhook (the API server is asked), not {config.authorization_mode!r}")
    if config.anonymous_auth or not config.webhook_authentication:
        raise ConfigError("authentication: this kubelet knows only anonymous.enabled false and webhook.enabled true")
    try:
        tls.profile(config.tls_min_version, config.tls_cipher_suites)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if config.max_pods < 1:
        raise ConfigError(f"maxPods must be positive, not {config.max_pods}")
    if bool(config.tls_cert_file) != bool(config.tls_private_key_file):
        raise ConfigError("tlsCertFile and tlsPrivateKeyFile must be given together")
    try:
        sysctl.check(config.allowed_unsafe_sysctls)
    except ValueError as error:
        raise ConfigError(f"allowedUnsafeSysctls: {error}") from None
    if not 1 <= config.max_container_restart_period <= 300:
        period = f"{config.max_container_restart_period:g}s"
        raise ConfigError(f"crashLoopBackOff.maxContainerRestartPeriod ({period}) must be between 1s and 300s")
    _validate_verification(config)
    if config.user_namespace_ids_per_pod <= 0 or config.user_namespace_ids_per_pod % userns.UNIT:
        ids = config.user_namespace_ids_per_pod
        raise ConfigError(f"userNamespaces.idsPerPod ({ids}) must be a multiple of {userns.UNIT}, and more than 0")
    if config.registry_pull_qps < 0:
        raise ConfigError(f"registryPullQPS ({config.registry_pull_qps}) must not be a negative number")
    if config.registry_burst < 0:
        raise ConfigError(f"registryBurst ({config.registry_burst}) must not be a negative number")
    if config.container_log_max_files < 2:
        raise ConfigError(f"containerLogMaxFiles must be at least 2, not {config.container_log_max_files}")

    try:
        config.thresholds()
    except thresholds.ThresholdError as error:
        raise ConfigError(f"eviction: {error}") from None
    high, low = config.image_gc_high_threshold_percent, config.image_gc_low_threshold_percent
    if not (0 <= low < high <= 100):
        raise ConfigError(
            f"imageGCLowThresholdPercent ({low}) must be below imageGCHighThresholdPercent ({high}), both within 0..100"
        )
    total, critical = config.shutdown_grace_period, config.shutdown_grace_period_critical_pods
    if config.shutdown_grace_period_by_pod_priority and (total or critical):
        raise ConfigError("shutdownGracePeriodByPodPriority and shutdownGracePeriod cannot be set at the same time")
    if critical > total:
        raise ConfigError(f"shutdownGracePeriodCriticalPods ({critical:g}s) must be <= shutdownGracePeriod ({total:g}s)")
    if 0 < total < 1 or 0 < critical < 1:
        raise ConfigError("shutdownGracePeriod and shutdownGracePeriodCriticalPods must be zero or at least a second")
    if wrong := config_resources.validate(config):
        raise ConfigError(wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]")


_VERIFICATION_POLICIES = ("NeverVerify", "NeverVerifyPreloadedImages", "NeverVerifyAllowlistedImages", "AlwaysVerify")


def _validate_verification(config: KubeletConfig) -> None:
    policy, allowed = config.image_pull_credentials_verification_policy, config.preloaded_images_verification_allowlist
    if policy not in _VERIFICATION_POLICIES:
        listed = ", ".join(_VERIFICATION_POLICIES)
        raise ConfigError(f'imagePullCredentialsVerificationPolicy: option "{policy}" is none of {listed}')
    if policy != "NeverVerifyAllowlistedImages" and allowed:
        wanted = '`imagePullCredentialsVerificationPolicy` is not "NeverVerifyAllowlistedImages"'
        raise ConfigError(f"can't set `preloadedImagesVerificationAllowlist` if {wanted}")
    for pattern in allowed:
        try:
            pull_records.check_pattern(pattern)
        except ValueError as error:
            raise ConfigError(f"preloadedImagesVerificationAllowlist: {error}") from None
    if (config.image_credential_provider_config is None) != (config.image_credential_provider_bin_dir is None):
        raise ConfigError("--image-credential-provider-config and --image-credential-provider-bin-dir must be given together")


def document(config: KubeletConfig) -> dict[str, Any]:
    """The configuration in effect as a KubeletConfiguration, for ``/configz``."""
    made: dict[str, Any] = {"kind": "KubeletConfiguration", "apiVersion": API_VERSION}
    for path, known in _FIELDS.items():
        *parents, last = path.split(".")
        inner = made
        for parent in parents:
            inner = inner.setdefault(parent, {})
        inner[last] = _shown(getattr(config, known.attribute), known.read)
    return made


def _shown(value: Any, read: Any) -> Any:
    if read is _headers:  # they may be credentials
        return {name: ["<masked>"] * len(values) for name, values in value.items()}
    if read is _duration:
        return f"{value:g}s"
    if isinstance(value, Gates):
        return dict(value.values)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple):
        return [dict(item) if isinstance(item, Mapping) else item for item in value]
    return value
