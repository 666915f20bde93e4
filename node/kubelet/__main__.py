"""``pybernetes kubelet``: flags and configuration file to one KubeletConfig, then ``kubelet.Kubelet``."""

import asyncio
import ipaddress
import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from component import features, flags
from component.daemon import Daemon, run
from node.kubelet import config_resources
from node.kubelet.config import ConfigError, KubeletConfig, load, read_folder, understood, validate


def _headers(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> Mapping[str, tuple[str, ...]] | None:
    """``name:value``, several of them or separated by commas, as upstream's."""
    if not given:
        return None
    made: dict[str, tuple[str, ...]] = {}
    for part in (part for text in given for part in text.split(",")):
        name, colon, value = part.partition(":")
        if not colon:
            raise click.BadParameter(f"malformed pair, expect string:string: {part!r}", ctx, param)
        made[name.strip()] = (*made.get(name.strip(), ()), value.strip())
    return made


def _reserved_memory(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> tuple[Mapping[str, Any], ...] | None:
    """May be given several times, as upstream's."""
    try:
        return tuple(part for text in given for part in config_resources.reserved_memory_flag(text)) or None
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


_PATH = click.Path(path_type=Path)

# flag: (attribute of KubeletConfig, click attributes). Flags that are given win over the configuration file.
_FLAGS: dict[str, tuple[str, dict[str, Any]]] = {
    "--address": ("address", {"help": "IP address to serve on."}),
    "--port": ("port", {"type": flags.PORT, "help": "Port of the kubelet's API [10250]."}),
    "--healthz-bind-address": ("healthz_bind_address", {"help": "IP address of the health port [127.0.0.1]."}),
    "--healthz-port": ("healthz_port", {"type": flags.PORT, "help": "Port of /healthz on localhost, 0 for none [10248]."}),
    "--root-dir": ("root_dir", {"type": _PATH, "help": "Directory of pods' files [/var/lib/kubelet]."}),
    "--pod-logs-dir": ("pod_logs_dir", {"type": _PATH, "help": "Directory of containers' logs [/var/log/pods]."}),
    "--cert-dir": ("cert_dir", {"type": _PATH, "help": "Where certificates of its own are kept [<root-dir>/pki]."}),
    "--rotate-certificates": (
        "rotate_certificates",
        {"type": click.BOOL, "help": "Ask the cluster for a new client certificate before the old one ends."},
    ),
    "--rotate-server-certificates": (
        "server_tls_bootstrap",
        {"type": click.BOOL, "help": "Have the serving certificate from the cluster, and renewed."},
    ),
    "--tls-cert-file": ("tls_cert_file", {"type": flags.INPUT_FILE, "help": "Serving certificate."}),
    "--tls-private-key-file": ("tls_private_key_file", {"type": flags.INPUT_FILE, "help": "Key of the serving certificate."}),
    "--tls-min-version": ("tls_min_version", {"help": "Lowest TLS version: VersionTLS12 (the default) or VersionTLS13."}),
    "--tls-cipher-suites": (
        "tls_cipher_suites",
        {"type": flags.COMMA_LIST, "help": "Cipher suites for TLS 1.2, by Go's names."},
    ),
    "--client-ca-file": ("client_ca_file", {"type": flags.INPUT_FILE, "help": "CA whose client certificates are recognised."}),
    "--container-runtime-endpoint": ("runtime_endpoint", {"help": "Socket of the CRI runtime, unix:///..."}),
    "--image-service-endpoint": ("image_endpoint", {"help": "Socket of the CRI image service, if another one."}),
    "--hostname-override": ("node_name", {"help": "Name of the node; the host's name by default."}),
    "--node-ip": ("node_ip", {"help": "Address of the node; that towards the API server by default."}),
    "--pod-cidr": ("pod_cidr", {"help": "Range of pod addresses; else the one given to the Node object."}),
    "--cluster-dns": ("cluster_dns", {"type": flags.COMMA_LIST, "help": "DNS servers for pods."}),
    "--cluster-domain": ("cluster_domain", {"help": "Domain of the cluster, such as cluster.local."}),
    "--resolv-conf": ("resolv_conf", {"type": _PATH, "help": "The node's resolver file, base of pods' [/etc/resolv.conf]."}),
    "--cgroup-root": ("cgroup_root", {"help": "cgroup below which all pods are put."}),
    "--cgroup-driver": ("cgroup_driver", {"type": click.Choice(["cgroupfs", "systemd"]), "help": "Who makes cgroups."}),
    "--cgroups-per-qos": ("cgroups_per_qos", {"type": click.BOOL, "help": "Put pods into cgroups by quality of service."}),
    "--max-pods": ("max_pods", {"type": int, "help": "Pods this node takes [110]."}),
    "--pod-max-pids": ("pod_pids_limit", {"type": int, "help": "Processes per pod, -1 for no limit."}),
    "--node-labels": ("node_labels", {"type": flags.KEY_VALUES, "help": "Labels for the node, key=value,..."}),
    "--register-node": ("register_node", {"type": click.BOOL, "help": "Create the Node object [true]."}),
    "--register-with-taints": ("register_with_taints", {"help": "Taints for a new node, key=value:effect,..."}),
    "--provider-id": ("provider_id", {"help": "The machine's identity at its provider."}),
    "--fail-swap-on": ("fail_swap_on", {"type": click.BOOL, "help": "Refuse to start on a machine that swaps."}),
    "--pod-manifest-path": ("static_pod_path", {"type": _PATH, "help": "Folder (or file) of static pods."}),
    "--manifest-url": ("static_pod_url", {"help": "URL of static pods: a Pod or a PodList."}),
    "--manifest-url-header": (
        "static_pod_url_header",
        {"multiple": True, "callback": _headers, "help": "Header for --manifest-url, name:value; may be given several times."},
    ),
    "--http-check-frequency": ("http_check_frequency", {"type": flags.DURATION, "help": "How often that URL is asked [20s]."}),
    "--anonymous-auth": ("anonymous_auth", {"type": click.BOOL, "help": "Must be false: nobody is anonymous to this kubelet."}),
    "--authorization-mode": ("authorization_mode", {"help": "Must be Webhook: the API server decides."}),
    "--authentication-token-webhook": ("webhook_authentication", {"type": click.BOOL, "help": "Must be true, as above."}),
    "--allowed-unsafe-sysctls": (
        "allowed_unsafe_sysctls",
        {"type": flags.COMMA_LIST, "help": "Unsafe sysctls (or patterns that end in *) that pods may set."},
    ),
    "--seccomp-default": ("seccomp_default", {"type": click.BOOL, "help": "The runtime's seccomp profile where a pod has none."}),
    "--image-credential-provider-config": (
        "image_credential_provider_config",
        {"type": _PATH, "help": "CredentialProviderConfig, a file or a folder: programs that give credentials for registries."},
    ),
    "--image-credential-provider-bin-dir": (
        "image_credential_provider_bin_dir",
        {"type": _PATH, "help": "Folder of these programs."},
    ),
    "--registry-qps": ("registry_pull_qps", {"type": int, "help": "Image pulls per second, 0 for no limit [5]."}),
    "--registry-burst": ("registry_burst", {"type": int, "help": "Image pulls that may begin at once [10]."}),
    "--serialize-image-pulls": ("serialize_image_pulls", {"type": click.BOOL, "help": "Pull one image at a time."}),
    "--node-status-update-frequency": ("node_status_update_frequency", {"type": flags.DURATION, "help": "How often [10s]."}),
    "--sync-frequency": ("sync_frequency", {"type": flags.DURATION, "help": "How often pods are looked after [1m]."}),
    "--container-log-max-files": ("container_log_max_files", {"type": int, "help": "Rotated logs to keep [5]."}),
    "--system-reserved": ("system_reserved", {"type": flags.KEY_VALUES, "help": "Kept for the system, cpu=200m,memory=1Gi."}),
    "--system-reserved-cgroup": ("system_reserved_cgroup", {"help": "cgroup of the system, for --enforce-node-allocatable."}),
    "--kube-reserved-cgroup": ("kube_reserved_cgroup", {"help": "cgroup of Kubernetes' own daemons, as above."}),
    "--reserved-cpus": ("reserved_system_cpus", {"help": "CPUs kept for the system and Kubernetes, by number, 0-1."}),
    "--enforce-node-allocatable": (
        "enforce_node_allocatable",
        {"type": flags.COMMA_LIST, "help": "What is bounded: pods, system-reserved, kube-reserved, or none [pods]."},
    ),
    "--cpu-cfs-quota": ("cpu_cfs_quota", {"type": click.BOOL, "help": "Have the kernel enforce CPU limits [true]."}),
    "--cpu-cfs-quota-period": ("cpu_cfs_quota_period", {"type": flags.DURATION, "help": "Its period [100ms]."}),
    "--qos-reserved": ("qos_reserved", {"type": flags.KEY_VALUES, "help": "Memory kept for better classes, memory=50%."}),
    "--cpu-manager-policy": ("cpu_manager_policy", {"help": "none, or static: whole CPUs for who asks for whole CPUs."}),
    "--cpu-manager-policy-options": (
        "cpu_manager_policy_options",
        {"type": flags.KEY_VALUES, "help": "Options of static, full-pcpus-only=true,..."},
    ),
    "--cpu-manager-reconcile-period": (
        "cpu_manager_reconcile_period", {"type": flags.DURATION, "help": "How often CPUs are looked after [10s]."}),
    "--memory-manager-policy": ("memory_manager_policy", {"help": "None, or Static: memory of certain NUMA nodes."}),
    "--reserved-memory": ("reserved_memory", {
        "multiple": True,
        "callback": _reserved_memory,
        "help": "Memory of a NUMA node kept for the system, 0:memory=1Gi,hugepages-2Mi=64Mi; may be given several times.",
    }),
    "--topology-manager-policy": (
        "topology_manager_policy", {"help": "none, best-effort, restricted or single-numa-node [none]."}),
    "--topology-manager-scope": ("topology_manager_scope", {"help": "What is aligned: each container, or the pod."}),
    "--topology-manager-policy-options": (
        "topology_manager_policy_options",
        {"type": flags.KEY_VALUES, "help": "prefer-closest-numa-nodes=true,..."},
    ),
    "--kube-reserved": ("kube_reserved", {"type": flags.KEY_VALUES, "help": "Kept for Kubernetes, as above."}),
    "--eviction-hard": ("eviction_hard", {
        "type": flags.LEAST_VALUES,
        "help": "Evict at once below, memory.available<100Mi,nodefs.available<10%.",
    }),
    "--eviction-soft": ("eviction_soft", {"type": flags.LEAST_VALUES, "help": "Evict after a grace period below."}),
    "--eviction-soft-grace-period": (
        "eviction_soft_grace_period", {"type": flags.KEY_VALUES, "help": "That period, memory.available=1m30s."}),
    "--eviction-minimum-reclaim": (
        "eviction_minimum_reclaim", {"type": flags.KEY_VALUES, "help": "Free at least so much more, nodefs.available=1Gi."}),
    "--eviction-pressure-transition-period": (
        "eviction_pressure_transition_period", {"type": flags.DURATION, "help": "How long a pressure condition stays [5m]."}),
    "--eviction-max-pod-grace-period": (
        "eviction_max_pod_grace_period", {"type": int, "help": "Seconds that a soft eviction leaves a pod, at most."}),
    "--image-gc-high-threshold": (
        "image_gc_high_threshold_percent", {"type": int, "help": "Disk usage at which unused images are removed [85]."}),
    "--image-gc-low-threshold": ("image_gc_low_threshold_percent", {"type": int, "help": "Disk usage to come down to [80]."}),
    "--minimum-image-ttl-duration": (
        "image_minimum_gc_age", {"type": flags.DURATION, "help": "Age before which an unused image stays [2m]."}),
    "--cni-conf-dir": ("cni_conf_dir", {"type": _PATH, "help": "Where the pod network's configuration is written."}),
    "--cni-bridge": ("cni_bridge", {"help": "Bridge of the pod network; empty: somebody else configures it [cni0]."}),
    "--local-path-dir": ("local_path_dir", {"type": _PATH, "help": "Folder for volumes of the class local-path; none without."}),
    "--pod-routes": ("pod_routes", {
        "type": click.Choice(["none", "direct"]),
        "help": "Route to the pods of other nodes: direct when all nodes share one network segment [none].",
    }),
}  # fmt: skip


def _params() -> list[click.Parameter]:
    return [
        flags.kubeconfig(),
        flags.option(
            "--bootstrap-kubeconfig",
            type=_PATH,
            help="Asks for a client certificate with this file's credentials when --kubeconfig is missing or has expired.",
        ),
        flags.option("--config", type=flags.INPUT_FILE, help="KubeletConfiguration file; flags win over it."),
        flags.option("--config-dir", type=_PATH, help="Folder of *.conf files that change single fields of --config."),
        features.flag(),
        flags.option("--pod-infra-container-image", default=None, help="Accepted; the runtime's configuration names it."),
        *(_option(name, **attributes) for name, (_, attributes) in _FLAGS.items()),
    ]


def _option(name: str, **attributes: Any) -> click.Option:
    """None stands for "not given"; a boolean may stand alone, as in Go."""
    if attributes.get("type") is click.BOOL:
        attributes |= {"is_flag": False, "flag_value": "true"}
    return flags.option(name, show_default=False, default=None, **attributes)


def read_config(options: Mapping[str, Any]) -> KubeletConfig:
    """File and flags together. Raises click.UsageError."""
    try:
        document: dict[str, Any] = {}
        if options.get("config"):
            document = load(Path(options["config"]).read_text())
        if options.get("config_dir"):
            document = read_folder(options["config_dir"], document)
        config = understood(document)
        given = {attribute: options[_key(name)] for name, (attribute, _) in _FLAGS.items() if options.get(_key(name)) is not None}
        if "register_with_taints" in given:
            given["register_with_taints"] = _taints(given["register_with_taints"])
        if "root_dir" in given and "pod_logs_dir" not in given and config.pod_logs_dir == KubeletConfig().pod_logs_dir:
            given["pod_logs_dir"] = given["root_dir"] / "pod-logs"  # a private root keeps its logs to itself
        wishes = {**config.features.values, **options["feature_gates"].values}
        given["features"] = features.from_flag({name: str(value).lower() for name, value in wishes.items()})
        config = replace(config, **given)
        config = replace(config, node_name=(config.node_name or socket.gethostname()).lower())
        if config.node_ip:
            _check_address(config.node_ip)
        validate(config)
    except ConfigError as error:
        raise click.UsageError(f"kubelet configuration: {error}") from None
    except (OSError, ValueError) as error:
        raise click.UsageError(str(error)) from None
    return config


def _check_address(text: str) -> None:
    try:
        ipaddress.ip_address(text)
    except ValueError as error:
        raise ConfigError(f"--node-ip: {error}") from None


def _key(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


def _taints(text: str) -> tuple[Mapping[str, str], ...]:
    """``key=value:effect,...``"""
    made = []
    for part in filter(None, text.split(",")):
        pair, colon, effect = part.rpartition(":")
        key, _, value = pair.partition("=")
        if not colon or not key or effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
            raise ConfigError(f"invalid taint {part!r}: write key=value:NoSchedule, PreferNoSchedule or NoExecute")
        made.append({"key": key, **({"value": value} if value else {}), "effect": effect})
    return tuple(made)


async def main(options: Mapping[str, Any]) -> None:
    config = read_config(options)
    if not options.get("kubeconfig"):
        raise click.UsageError("--kubeconfig is needed: a file with the API server's address and this node's credentials")
    from client import kubeconfig
    from node.kubelet.kubelet import Kubelet

    bootstrap = options.get("bootstrap_kubeconfig")
    try:
        if bootstrap is not None:
            await _join(config, Path(options["kubeconfig"]), bootstrap)
        credentials = kubeconfig.load(options["kubeconfig"])
    except kubeconfig.KubeconfigError as error:
        raise click.UsageError(f"--kubeconfig: {error}") from None
    await Kubelet(config, credentials, bootstrap=bootstrap).run()


async def _join(config: KubeletConfig, path: Path, bootstrap: Path) -> None:
    from component.clock import RealClock
    from node.kubelet.certificate import bootstrap as joining

    clock = RealClock()
    if not await asyncio.to_thread(joining.is_still_valid, path, clock.now()):
        await joining.bootstrap(joining.Files(path, bootstrap, config.certificates), config.node_name, clock)


DAEMON = Daemon("kubelet", "The node agent: runs the pods of this node on a CRI container runtime, and reports.", _params(), main)

if __name__ == "__main__":
    run(DAEMON)
