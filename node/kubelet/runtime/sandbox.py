"""The sandbox of a pod: its CRI configuration, made of the pod alone, so that a restarted kubelet makes the same one.

``manager`` runs it; ``container_config`` hands it to the runtime again with every container.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from apimachinery.meta import annotations_of, labels_of, name_of, namespace_of, uid_of
from apimachinery.objects import pods
from apimachinery.objects.requests import pod_limits, pod_requests
from cri.api import runtime_v1_pb2 as pb
from node.kubelet.config import KubeletConfig
from node.kubelet.runtime import dns, names, resources, security
from node.kubelet.userns import IdRange

NODE = resources.Node()
_PROTOCOLS = {"TCP": pb.TCP, "UDP": pb.UDP, "SCTP": pb.SCTP}


def sandbox_config(
    pod: Mapping[str, Any],
    config: KubeletConfig,
    host_dns: dns.ResolvConf,
    attempt: int,
    cgroup_parent: str,
    node: resources.Node = NODE,
    users: IdRange | None = None,
) -> pb.PodSandboxConfig:
    """Raises ValueError for a host name the kernel cannot hold."""
    conf = dns.pod_dns(pod, host_dns, config.cluster_dns, config.cluster_domain)
    made = pb.PodSandboxConfig(
        metadata=pb.PodSandboxMetadata(name=name_of(pod), namespace=namespace_of(pod), uid=uid_of(pod), attempt=attempt),
        log_directory=str(log_directory(pod, config.pod_logs_dir)),
        dns_config=pb.DNSConfig(servers=conf.nameservers, searches=conf.searches, options=conf.options),
        labels={**labels_of(pod), **identity(pod)},
        annotations=dict(annotations_of(pod)),
        linux=_linux(pod, cgroup_parent, node, users),
    )
    if not pods.is_host_network(pod):
        made.hostname = dns.kernel_hostname(pod, config.cluster_domain)
        made.port_mappings.extend(_port_mappings(pod))
    return made


def identity(pod: Mapping[str, Any]) -> dict[str, str]:
    """The labels by which sandboxes and containers are found again."""
    return {names.POD_NAME: name_of(pod), names.POD_NAMESPACE: namespace_of(pod), names.POD_UID: uid_of(pod)}


def log_directory(pod: Mapping[str, Any], root: Path) -> Path:
    return names.pod_log_directory(root, namespace_of(pod), name_of(pod), uid_of(pod))


def _linux(pod: Mapping[str, Any], cgroup_parent: str, node: resources.Node, users: IdRange | None) -> pb.LinuxPodSandboxConfig:
    sysctls = (pods.spec_of(pod).get("securityContext") or {}).get("sysctls") or ()
    return pb.LinuxPodSandboxConfig(
        cgroup_parent=cgroup_parent,
        security_context=security.sandbox_context(pod, users),
        sysctls={each["name"]: each["value"] for each in sysctls},
        resources=resources.sandbox_resources(pod_requests(pod), pod_limits(pod), node),
    )


def _port_mappings(pod: Mapping[str, Any]) -> Sequence[pb.PortMapping]:
    return [
        pb.PortMapping(
            protocol=_PROTOCOLS[port.get("protocol") or "TCP"],
            container_port=int(port["containerPort"]),
            host_port=int(port["hostPort"]),
            host_ip=str(port.get("hostIP") or ""),
        )
        for container in pods.long_running_containers(pod)
        for port in container.get("ports") or ()
        if port.get("hostPort")
    ]
