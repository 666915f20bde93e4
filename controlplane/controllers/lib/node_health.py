"""Is a node alive, and what must its conditions and taints say? Pure; used by node_lifecycle."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from apimachinery.meta import Object, condition_status, creation_time, get_condition, set_condition
from apimachinery.objects import nodes, taints
from apimachinery.times import format_time

PRESSURES = {
    "MemoryPressure": taints.MEMORY_PRESSURE,
    "DiskPressure": taints.DISK_PRESSURE,
    "PIDPressure": taints.PID_PRESSURE,
    "NetworkUnavailable": taints.NETWORK_UNAVAILABLE,
}
_HEARTBEAT_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_MANAGED = frozenset({taints.NOT_READY, taints.UNREACHABLE, taints.UNSCHEDULABLE, *PRESSURES.values()})


def mark_unknown(node: Object, now: datetime) -> bool:
    """The kubelet has been silent for too long: nothing it said is known to hold any more."""
    changed = False
    for kind in _HEARTBEAT_CONDITIONS:
        held = get_condition(node, kind)
        if held is None:
            reason, message = "NodeStatusNeverUpdated", "Kubelet never posted node status."
            created = creation_time(node)
            stamps = {"lastHeartbeatTime": format_time(created)} if created else {}
        elif held.get("status") != "Unknown":
            reason, message, stamps = "NodeStatusUnknown", "Kubelet stopped posting node status.", {}
        else:
            continue
        changed |= set_condition(node, kind, "Unknown", now=now, reason=reason, message=message, stamps=stamps)
    return changed


def wanted_taints(node: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(key, effect) of the taints that the node's conditions call for."""
    found = []
    ready = condition_status(node, "Ready")
    if ready != "True":
        key = taints.NOT_READY if ready == "False" else taints.UNREACHABLE
        found += [(key, taints.NO_SCHEDULE), (key, taints.NO_EXECUTE)]
    found += [(key, taints.NO_SCHEDULE) for kind, key in PRESSURES.items() if condition_status(node, kind) == "True"]
    if nodes.is_unschedulable(node):
        found.append((taints.UNSCHEDULABLE, taints.NO_SCHEDULE))
    return found


def next_taints(node: Mapping[str, Any], now: datetime) -> list[Object] | None:
    """The node's new list of taints, or None when it has what it should. Foreign taints stay as they are."""
    wanted = wanted_taints(node)
    held = nodes.taints(node)
    kept = [each for each in held if each.get("key") not in _MANAGED or (each.get("key"), each.get("effect")) in wanted]
    present = {(each.get("key"), each.get("effect")) for each in kept}
    for key, effect in wanted:
        if (key, effect) not in present:
            kept.append({"key": key, "effect": effect, "timeAdded": format_time(now)})
    return None if kept == held else kept


def executing(listed: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The taints that evict."""
    return [each for each in listed if each.get("effect") == taints.NO_EXECUTE]
