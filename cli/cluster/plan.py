"""Which processes a cluster is made of: a pure function from settings and paths to process specifications.

`up` starts them, in this order; `status` and `down` know them by name. Three Python processes: a bare interpreter with
aiohttp costs over 50 MB, so the parts that never need isolation from each other share one.
"""

import sys
from collections.abc import Sequence

from cli.cluster import code
from cli.cluster.layout import Layout
from cli.cluster.processes import MARK_CODE, ProcessSpec
from cli.cluster.settings import Settings

ETCD = "etcd"
CONTAINERD = "containerd"
APISERVER = "apiserver"
CONTROL = "control"
NODE = "node"
DAEMONS = (APISERVER, CONTROL, NODE)
PROCESSES = (ETCD, CONTAINERD, *DAEMONS)


def daemons(layout: Layout, settings: Settings, endpoint: str) -> list[ProcessSpec]:
    """The three Python processes; ``endpoint`` is the container runtime's ``unix://`` address."""
    control = ["scheduler", *scheduler_flags(layout, settings), "+", "controller-manager", *controller_flags(layout, settings)]
    node = ["kubelet", *kubelet_flags(layout, settings, endpoint), "+", "proxy", *proxy_flags(layout, settings)]
    node += ["+", "dns", *dns_flags(layout, settings)]
    return [
        _spec(layout, APISERVER, ["apiserver", *apiserver_flags(layout, settings)]),
        _spec(layout, CONTROL, ["together", *control]),
        _spec(layout, NODE, ["together", *node]),
    ]


def _spec(layout: Layout, name: str, arguments: Sequence[str]) -> ProcessSpec:
    argv = [sys.executable, "-m", "cli", *arguments]
    return ProcessSpec(name, argv, layout.logs / f"{name}.log", {MARK_CODE: code.fingerprint()})


def apiserver_flags(layout: Layout, settings: Settings) -> list[str]:
    pki = layout.pki
    return [
        f"--bind-address={settings.bind_address}",
        f"--secure-port={settings.secure_port}",
        f"--advertise-address={settings.node_ip}",
        *storage_flags(layout, settings),
        f"--encryption-provider-config={layout.encryption_config}",
        "--encryption-provider-config-automatic-reload=true",
        f"--tls-cert-file={pki / 'apiserver.crt'}",
        f"--tls-private-key-file={pki / 'apiserver.key'}",
        f"--client-ca-file={pki / 'ca.crt'}",
        f"--token-auth-file={pki / 'tokens.csv'}",
        "--enable-bootstrap-token-auth=true",
        f"--service-account-key-file={pki / 'sa.pub'}",
        f"--service-account-signing-key-file={pki / 'sa.key'}",
        f"--service-account-issuer=https://kubernetes.default.svc.{settings.cluster_domain}",
        f"--service-cluster-ip-range={settings.service_cluster_ip_range}",
        f"--service-node-port-range={settings.service_node_port_range}",
        f"--kubelet-certificate-authority={pki / 'ca.crt'}",
        f"--kubelet-client-certificate={pki / 'apiserver-kubelet-client.crt'}",
        f"--kubelet-client-key={pki / 'apiserver-kubelet-client.key'}",
        f"--requestheader-client-ca-file={pki / 'front-proxy-ca.crt'}",
        "--requestheader-allowed-names=front-proxy-client",
        f"--proxy-client-cert-file={pki / 'front-proxy-client.crt'}",
        f"--proxy-client-key-file={pki / 'front-proxy-client.key'}",
        "--enable-resource-metrics",
        f"--audit-log-path={layout.audit_log}",
        "--audit-log-maxsize=20",
        "--audit-log-maxbackup=3",
        f"--v={settings.v}",
    ]


def storage_flags(layout: Layout, settings: Settings) -> list[str]:
    if settings.store == "sqlite":
        return ["--storage-backend=sqlite", f"--storage-path={layout.state_db}"]
    named = zip(("--etcd-cafile", "--etcd-certfile", "--etcd-keyfile"), client_files(layout, settings), strict=True)
    servers = settings.etcd_servers or settings.own_etcd_url
    return ["--storage-backend=etcd3", f"--etcd-servers={servers}", *(f"{flag}={file}" for flag, file in named if file)]


def client_files(layout: Layout, settings: Settings) -> tuple[str, str, str]:
    """CA, certificate and key that the API server uses towards etcd; empty where there is none."""
    if settings.etcd_servers:
        return settings.etcd_cafile, settings.etcd_certfile, settings.etcd_keyfile
    client = layout.etcd_pki / "apiserver-etcd-client"
    return str(layout.etcd_pki / "ca.crt"), f"{client}.crt", f"{client}.key"


def uses(settings: Settings) -> list[str]:
    """The processes that a cluster with these settings has, of :data:`PROCESSES`."""
    without = {name for name, ours in ((ETCD, settings.store == "etcd"), (CONTAINERD, not settings.containerd)) if not ours}
    return [name for name in PROCESSES if name not in without]


def controller_flags(layout: Layout, settings: Settings) -> list[str]:
    return [
        f"--kubeconfig={layout.kubeconfigs / 'controller-manager.kubeconfig'}",
        "--bind-address=127.0.0.1",
        f"--secure-port={settings.controller_manager_port}",
        *control_serving_flags(layout),
        "--controllers=*,bootstrapsigner,tokencleaner",
        "--allocate-node-cidrs=true",
        f"--cluster-cidr={settings.cluster_cidr}",
        f"--service-cluster-ip-range={settings.service_cluster_ip_range}",
        f"--root-ca-file={layout.pki / 'ca.crt'}",
        f"--local-path-dir={layout.local_path}",
        f"--service-account-private-key-file={layout.pki / 'sa.key'}",
        f"--cluster-signing-cert-file={layout.pki / 'ca.crt'}",
        f"--cluster-signing-key-file={layout.pki / 'ca.key'}",
        # one node has one of each: an election would only delay the start
        "--leader-elect=false",
        f"--v={settings.v}",
    ]


def control_serving_flags(layout: Layout) -> list[str]:
    """Without a certificate each would make its own, and load a library of 11 MB for that."""
    pki = layout.pki
    return [
        f"--tls-cert-file={pki / 'control.crt'}",
        f"--tls-private-key-file={pki / 'control.key'}",
        f"--client-ca-file={pki / 'ca.crt'}",
    ]


def scheduler_flags(layout: Layout, settings: Settings) -> list[str]:
    return [
        f"--kubeconfig={layout.kubeconfigs / 'scheduler.kubeconfig'}",
        "--bind-address=127.0.0.1",
        f"--secure-port={settings.scheduler_port}",
        *control_serving_flags(layout),
        "--leader-elect=false",
        f"--v={settings.v}",
    ]


def kubelet_flags(layout: Layout, settings: Settings, endpoint: str) -> list[str]:
    pki = layout.pki
    return [
        f"--kubeconfig={layout.kubeconfigs / 'kubelet.kubeconfig'}",
        f"--container-runtime-endpoint={endpoint}",
        f"--root-dir={layout.kubelet}",
        f"--pod-logs-dir={layout.pod_logs}",
        f"--cgroup-root={layout.cgroup_root}",
        *(["--cgroup-driver=systemd"] if settings.systemd_cgroup else []),
        f"--hostname-override={settings.node_name}",
        f"--node-ip={settings.node_ip}",
        f"--port={settings.kubelet_port}",
        f"--healthz-port={settings.kubelet_healthz_port}",
        f"--tls-cert-file={pki / 'kubelet.crt'}",
        f"--tls-private-key-file={pki / 'kubelet.key'}",
        f"--client-ca-file={pki / 'ca.crt'}",
        f"--cluster-domain={settings.cluster_domain}",
        f"--cluster-dns={settings.dns_ip}",
        f"--cni-conf-dir={settings.cni_conf_dir or layout.cni_conf}",
        f"--cni-bridge={settings.bridge}",
        f"--pod-routes={settings.pod_routes}",
        # On a machine with other work a disk may well be nine tenths full; and images that were imported by hand cannot be
        # pulled again, so none is removed before the disk is as good as full.
        "--eviction-hard=memory.available<100Mi,nodefs.available<5%,imagefs.available<5%,nodefs.inodesFree<5%",
        "--image-gc-high-threshold=100",
        f"--local-path-dir={layout.local_path}",
        f"--v={settings.v}",
    ]


def proxy_flags(layout: Layout, settings: Settings) -> list[str]:
    return [
        f"--kubeconfig={layout.kubeconfigs / 'proxy.kubeconfig'}",
        f"--proxy-mode={settings.proxy_mode}",
        f"--cluster-cidr={settings.cluster_cidr}",
        f"--hostname-override={settings.node_name}",
        f"--healthz-bind-address=0.0.0.0:{settings.proxy_healthz_port}",
        f"--metrics-bind-address=127.0.0.1:{settings.proxy_metrics_port}",
        f"--v={settings.v}",
    ]


def dns_flags(layout: Layout, settings: Settings) -> list[str]:
    return [
        f"--kubeconfig={layout.kubeconfigs / 'dns.kubeconfig'}",
        f"--hostname-override={settings.node_name}",
        f"--cluster-domain={settings.cluster_domain}",
        f"--bind-address={settings.node_ip}",
        f"--port={settings.dns_port}",
        f"--advertise-address={settings.node_ip}",
        # the node's address may be open to the world, which must not have us ask resolvers for it
        f"--allow-from={settings.cluster_cidr},{settings.node_ip},127.0.0.0/8",
        f"--metrics-bind-address=127.0.0.1:{settings.dns_metrics_port}",
        f"--v={settings.v}",
    ]
