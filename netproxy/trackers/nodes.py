"""This node as the proxy sees it: addresses, zone, and whether load balancers should still send to it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]

ZONE_LABEL = "topology.kubernetes.io/zone"
_TO_BE_DELETED = "ToBeDeletedByClusterAutoscaler"


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """``eligible`` is false for a node that is going away: its health check then fails, so that balancers drain it."""

    name: str
    addresses: tuple[str, ...] = ()
    zone: str = ""
    eligible: bool = True


def node_facts(obj: Mapping[str, Any]) -> NodeFacts:
    metadata, spec = obj["metadata"], obj.get("spec") or {}
    addresses = (obj.get("status") or {}).get("addresses") or ()
    wanted = [str(each["address"]) for kind in ("InternalIP", "ExternalIP") for each in addresses if each.get("type") == kind]
    marked = any(taint.get("key") == _TO_BE_DELETED for taint in spec.get("taints") or ())
    return NodeFacts(
        str(metadata["name"]),
        addresses=tuple(wanted),
        zone=str((metadata.get("labels") or {}).get(ZONE_LABEL, "")),
        eligible=not (marked or metadata.get("deletionTimestamp")),
    )


def trimmed(obj: Object) -> Object:
    """Informer transform: what :func:`node_facts` reads."""
    metadata, spec = obj["metadata"], obj.get("spec") or {}
    kept = {key: metadata[key] for key in ("name", "uid", "resourceVersion", "deletionTimestamp") if metadata.get(key)}
    zone = (metadata.get("labels") or {}).get(ZONE_LABEL)
    if zone:
        kept["labels"] = {ZONE_LABEL: zone}
    return {
        "metadata": kept,
        "spec": {key: spec[key] for key in ("taints",) if spec.get(key)},
        "status": {"addresses": (obj.get("status") or {}).get("addresses") or []},
    }


class NodeTracker:
    """The last known facts of one node, and whether they changed since the last look."""

    def __init__(self, name: str) -> None:
        self.facts = NodeFacts(name)
        self._changed = False

    def update(self, obj: Object) -> bool:
        """Take in the Node object; whether anything that matters changed. Heartbeats change nothing."""
        facts = node_facts(obj)
        changed = facts != self.facts
        self.facts = facts
        self._changed = self._changed or changed
        return changed

    def delete(self, obj: Object) -> bool:
        """The Node object is gone: nothing should be sent here any more, but rules stay."""
        changed = self.facts.eligible
        facts = self.facts
        self.facts = NodeFacts(facts.name, facts.addresses, facts.zone, eligible=False)
        self._changed = self._changed or changed
        return changed

    def take(self) -> bool:
        changed, self._changed = self._changed, False
        return changed
