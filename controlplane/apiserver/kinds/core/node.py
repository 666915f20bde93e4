"""Nodes: registered by kubelets, described by their status, kept away from by taints."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from apimachinery.meta import get_condition
from apimachinery.objects import nodes
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.amounts import canonical_amounts
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, NONE, age_of, wide
from controlplane.apiserver.registry.printing import UNKNOWN
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class NodeStrategy(Strategy):
    info = ResourceInfo(GroupVersionKind("", "v1", "Node"), "nodes", "node", False, short_names=("no",))
    columns = (
        NAME,
        Column("Status", description="The status of the node"),
        Column("Roles", description="The roles of the node"),
        AGE,
        Column("Version", description="Kubelet Version reported by the node."),
        wide("Internal-IP", "The first address of type InternalIP."),
        wide("External-IP", "The first address of type ExternalIP."),
        wide("OS-Image", "The operating system that the node reports."),
        wide("Kernel-Version", "The kernel that the node reports."),
        wide("Container-Runtime", "The container runtime that the node reports."),
    )
    has_status = True
    selectable_names = frozenset({"spec.unschedulable"})

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        first, listed = spec.get("podCIDR"), spec.get("podCIDRs")
        if first and (not listed or listed[0] != first):
            spec["podCIDRs"] = [first]
        elif listed and not first:
            spec["podCIDR"] = listed[0]
        status = obj.get("status")
        if status:
            for part in ("capacity", "allocatable"):
                if status.get(part):
                    canonical_amounts(status[part])
            if status.get("capacity") and status.get("allocatable") is None:
                status["allocatable"] = dict(status["capacity"])

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        spec = obj.get("spec") or {}
        found = _check_taints(spec.get("taints") or ())
        for position, cidr in enumerate(spec.get("podCIDRs") or ()):
            found += checks.each(f"spec.podCIDRs[{position}]", cidr, names.is_cidr(cidr))
        cidrs = spec.get("podCIDRs") or []
        if not found and len(cidrs) > 1 and (len(cidrs) > 2 or (":" in cidrs[0]) == (":" in cidrs[1])):
            text = "may specify no more than one CIDR for each IP family"
            found.append(fieldpath.invalid("spec.podCIDRs", cidrs, text))
        return found

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        spec, previous = obj.get("spec") or {}, old.get("spec") or {}
        found = self.validate(ctx, obj)
        if previous.get("podCIDRs") and spec.get("podCIDRs") != previous["podCIDRs"]:
            text = 'node updates may not change podCIDR except from "" to valid'
            found.append(fieldpath.forbidden("spec.podCIDRs", text))
        if previous.get("providerID") and spec.get("providerID") != previous["providerID"]:
            text = 'node updates may not change providerID except from "" to valid'
            found.append(fieldpath.forbidden("spec.providerID", text))
        return found

    def validate_status_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        found: list[FieldError] = []
        taken: set[tuple[str, str]] = set()
        for position, address in enumerate((obj.get("status") or {}).get("addresses") or ()):
            pair = (address.get("type", ""), address.get("address", ""))
            if pair in taken:
                found.append(fieldpath.duplicate(f"status.addresses[{position}]", dict(address)))
            taken.add(pair)
        return found

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        return {"spec.unschedulable": "true" if nodes.is_unschedulable(obj) else "false"}

    def row(self, obj: Object, now: datetime) -> list[Any]:
        info = (obj.get("status") or {}).get("nodeInfo") or {}
        return [
            obj["metadata"]["name"],
            _status(obj),
            ",".join(nodes.roles(obj)) or NONE,
            age_of(obj, now),
            info.get("kubeletVersion", ""),
            next(iter(nodes.addresses(obj, "InternalIP")), NONE),
            next(iter(nodes.addresses(obj, "ExternalIP")), NONE),
            info.get("osImage") or UNKNOWN,
            info.get("kernelVersion") or UNKNOWN,
            info.get("containerRuntimeVersion") or UNKNOWN,
        ]


def _status(node: Object) -> str:
    ready = get_condition(node, "Ready")
    words = ["Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"]
    if nodes.is_unschedulable(node):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _check_taints(taints: Any) -> list[FieldError]:
    found: list[FieldError] = []
    taken: set[tuple[str, str]] = set()
    for position, taint in enumerate(taints):
        path = f"metadata.taints[{position}]"  # upstream's path, odd as it is
        key, value, effect = taint.get("key") or "", taint.get("value") or "", taint.get("effect") or ""
        found += checks.label_key(key, f"{path}.key")
        problems = names.is_label_value(value)
        if problems:
            found.append(fieldpath.invalid(f"{path}.value", value, ";".join(problems)))
        found += checks.one_of(effect, _EFFECTS, f"{path}.effect")
        if (key, effect) in taken:
            text = "taints must be unique by key and effect pair"
            found.append(fieldpath.FieldError("FieldValueDuplicate", path, dict(taint), text))
        taken.add((key, effect))
    return found
