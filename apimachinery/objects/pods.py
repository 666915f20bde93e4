"""Questions about pods, asked by controllers, scheduler, kubelet and the API server's printers."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from apimachinery.meta import get_condition, is_deleting
from apimachinery.times import parse_time

TEMPLATE_HASH_LABEL = "pod-template-hash"
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
DELETION_COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
WILDCARD = "0.0.0.0"  # noqa: S104 - a host port's address, not one to listen on

RESTART, RESTART_ALL = "Restart", "RestartAllContainers"  # the actions of a container's restart rules

Pod = Mapping[str, Any]


def spec_of(pod: Pod) -> Mapping[str, Any]:
    return pod.get("spec") or {}


def phase(pod: Pod) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def node_name(pod: Pod) -> str:
    """The node the pod is bound to, or an empty string."""
    return str(spec_of(pod).get("nodeName") or "")


def is_terminal(pod: Pod) -> bool:
    """Succeeded or Failed: its containers will not run again."""
    return phase(pod) in ("Succeeded", "Failed")


def is_active(pod: Pod) -> bool:
    """Counts towards a workload's replicas: neither finished nor being deleted."""
    return not is_terminal(pod) and not is_deleting(pod)


def ready_condition(pod: Pod) -> Mapping[str, Any] | None:
    return get_condition(pod, "Ready")


def is_ready(pod: Pod) -> bool:
    condition = ready_condition(pod)
    return condition is not None and condition.get("status") == "True"


def ready_since(pod: Pod) -> datetime | None:
    """When the pod last became Ready; None while it is not."""
    condition = ready_condition(pod)
    if condition is None or condition.get("status") != "True" or not condition.get("lastTransitionTime"):
        return None
    return parse_time(condition["lastTransitionTime"])


def available_at(pod: Pod, min_ready_seconds: int) -> datetime | None:
    """When a ready pod becomes, or became, available. None for a pod that is not ready."""
    since = ready_since(pod)
    return since + timedelta(seconds=min_ready_seconds) if since else None


def is_available(pod: Pod, min_ready_seconds: int, now: datetime) -> bool:
    """Ready, and has been for ``min_ready_seconds``."""
    if not is_ready(pod):
        return False
    if min_ready_seconds <= 0:
        return True
    moment = available_at(pod, min_ready_seconds)
    return moment is not None and moment <= now


def is_mirror(pod: Pod) -> bool:
    """The API server's image of a static pod."""
    return MIRROR_ANNOTATION in ((pod.get("metadata") or {}).get("annotations") or {})


def is_host_network(pod: Pod) -> bool:
    return bool(spec_of(pod).get("hostNetwork"))


def priority(pod: Pod) -> int:
    return int(spec_of(pod).get("priority") or 0)


def restart_policy(pod: Pod) -> str:
    return str(spec_of(pod).get("restartPolicy") or "Always")


def is_sidecar(container: Mapping[str, Any]) -> bool:
    """An init container that keeps running beside the others."""
    return container.get("restartPolicy") == "Always"


def restart_rule(container: Mapping[str, Any], exit_code: int) -> str:
    """The action of the first of a container's own rules that an exit code meets; empty without one (KEP-5307)."""
    for rule in container.get("restartPolicyRules") or ():
        codes = rule.get("exitCodes") or {}
        if (exit_code in (codes.get("values") or ())) == (codes.get("operator") == "In"):
            return str(rule.get("action") or "")
    return ""


def restarts_after(pod: Pod, container: Mapping[str, Any], exit_code: int) -> bool:
    """Whether a container that ended with that code is started again: its rules say so, or else its own policy, or the pod's."""
    if container.get("restartPolicy") and restart_rule(container, exit_code) in (RESTART, RESTART_ALL):
        return True
    match container.get("restartPolicy") or restart_policy(pod):
        case "Never":
            return False
        case "OnFailure":
            return exit_code != 0
    return True


def may_restart(pod: Pod, container: Mapping[str, Any]) -> bool:
    """Whether there is any exit after which a container is started again."""
    rules = bool(container.get("restartPolicy") and container.get("restartPolicyRules"))
    return rules or (container.get("restartPolicy") or restart_policy(pod)) != "Never"


def may_restart_all(pod: Pod) -> bool:
    """Whether a container's exit can have all containers of the pod started anew (KEP-5532)."""
    spec = spec_of(pod)
    listed = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    return any(rule.get("action") == RESTART_ALL for each in listed for rule in each.get("restartPolicyRules") or ())


def containers(pod: Pod) -> Iterator[Mapping[str, Any]]:
    """The ordinary containers."""
    yield from spec_of(pod).get("containers") or ()


def all_containers(pod: Pod) -> Iterator[Mapping[str, Any]]:
    """Init containers, ordinary ones, then ephemeral ones."""
    spec = spec_of(pod)
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()
    yield from spec.get("ephemeralContainers") or ()


def sidecars(pod: Pod) -> Iterator[Mapping[str, Any]]:
    """Init containers that go on running."""
    yield from (each for each in spec_of(pod).get("initContainers") or () if is_sidecar(each))


def long_running_containers(pod: Pod) -> Iterator[Mapping[str, Any]]:
    """Ordinary containers and sidecars: those whose ports are open while the pod is ready."""
    yield from sidecars(pod)
    yield from containers(pod)


def pod_ips(pod: Pod) -> list[str]:
    status = pod.get("status") or {}
    listed = [str(each["ip"]) for each in status.get("podIPs") or () if each.get("ip")]
    return listed or ([str(status["podIP"])] if status.get("podIP") else [])


def host_ports(pod: Pod) -> list[tuple[str, str, int]]:
    """(protocol, host IP, port) of every port the pod wants on its node's own addresses."""
    wanted = []
    for container in long_running_containers(pod):
        for port in container.get("ports") or ():
            number = port.get("hostPort") or 0
            if number > 0:
                wanted.append((str(port.get("protocol") or "TCP"), str(port.get("hostIP") or WILDCARD), int(number)))
    return wanted


def host_ports_conflict(pod: Pod, other: Pod) -> bool:
    """Whether two pods cannot share a node; the wildcard address collides with every address."""
    held = host_ports(other)
    return any(
        (protocol, number) == (held_protocol, held_number) and (address == held_address or WILDCARD in (address, held_address))
        for protocol, address, number in host_ports(pod)
        for held_protocol, held_address, held_number in held
    )


def find_port(pod: Pod, target: int | str, protocol: str) -> int | None:
    """The container port a Service's ``targetPort`` means: a number as it is, a name by looking it up."""
    if isinstance(target, int):
        return target
    for container in long_running_containers(pod):
        for port in container.get("ports") or ():
            if port.get("name") == target and (port.get("protocol") or "TCP") == protocol:
                return int(port["containerPort"])
    return None


def container_statuses(pod: Pod) -> Iterator[Mapping[str, Any]]:
    status = pod.get("status") or {}
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()


def restart_count(pod: Pod) -> int:
    """The most restarts of any one container, by which ReplicaSets rank pods for deletion."""
    return max((int(each.get("restartCount") or 0) for each in container_statuses(pod)), default=0)


def deletion_cost(pod: Pod) -> int:
    """``controller.kubernetes.io/pod-deletion-cost``; what cannot be read counts as 0, as upstream does."""
    text = ((pod.get("metadata") or {}).get("annotations") or {}).get(DELETION_COST_ANNOTATION)
    try:
        return int(text or 0)
    except ValueError:
        return 0


def is_scheduling_gated(pod: Pod) -> bool:
    return bool(spec_of(pod).get("schedulingGates"))
