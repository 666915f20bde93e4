"""Defaults of Pods beyond those of every pod spec."""

from typing import Any

from controlplane.apiserver.kinds.core.pod_template import default_pod_spec

Object = dict[str, Any]


def default_pod(pod: Object) -> None:
    spec = pod.get("spec")
    if spec is None:
        spec = pod["spec"] = {}
    default_pod_spec(spec)
    if spec.get("enableServiceLinks") is None:
        spec["enableServiceLinks"] = True
    host_network = bool(spec.get("hostNetwork"))
    for part in ("initContainers", "containers"):
        for container in spec.get(part) or ():
            resources = container.get("resources")
            if resources and resources.get("limits"):
                _requests_from_limits(resources)
            if host_network:
                _host_ports(container)
    if spec.get("resources") and spec["resources"].get("limits"):
        _requests_from_limits(spec["resources"])
    if pod.get("status"):
        sync_addresses(pod["status"])


def _requests_from_limits(resources: Object) -> None:
    """A container that limits a resource and requests none of it requests the limit."""
    requests = resources.get("requests")
    if requests is None:
        requests = resources["requests"] = {}
    for name, amount in resources["limits"].items():
        requests.setdefault(name, amount)


def _host_ports(container: Object) -> None:
    """On the node's own network a container port is a host port."""
    for port in container.get("ports") or ():
        if not port.get("hostPort"):
            port["hostPort"] = port.get("containerPort")


def sync_addresses(status: Object) -> None:
    """``podIP`` is the first of ``podIPs`` and ``hostIP`` of ``hostIPs``; a client that knows only one sets both."""
    for single, plural in (("podIP", "podIPs"), ("hostIP", "hostIPs")):
        first, listed = status.get(single), status.get(plural)
        if first and (not listed or listed[0].get("ip") != first):
            status[plural] = [{"ip": first}]
        elif listed and not first:
            status[single] = listed[0].get("ip")
