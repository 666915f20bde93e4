"""All plugins, their default weights, and how a profile's configuration chooses among them."""

from collections.abc import Mapping
from typing import Any

import click

from component.clock import Clock, RealClock
from component.featuregates import Gates
from component.features import DEFAULTS
from component.flags import parse_duration
from controlplane.scheduler.config import ProfileConfig
from controlplane.scheduler.framework.devices import Devices, NoDevices
from controlplane.scheduler.framework.runtime import Profile
from controlplane.scheduler.framework.storage import NoStorage, Storage
from controlplane.scheduler.plugins.balanced_allocation import BalancedAllocation
from controlplane.scheduler.plugins.default_binder import DefaultBinder, Post
from controlplane.scheduler.plugins.dynamic_resources import BINDING_SECONDS, FILTER_SECONDS, DynamicResources
from controlplane.scheduler.plugins.image_locality import ImageLocality
from controlplane.scheduler.plugins.inter_pod_affinity import InterPodAffinity
from controlplane.scheduler.plugins.node_affinity import NodeAffinity
from controlplane.scheduler.plugins.node_name import NodeName
from controlplane.scheduler.plugins.node_ports import NodePorts
from controlplane.scheduler.plugins.node_resources_fit import LEAST_ALLOCATED, MOST_ALLOCATED, Backed, NodeResourcesFit
from controlplane.scheduler.plugins.node_unschedulable import NodeUnschedulable
from controlplane.scheduler.plugins.node_volume_limits import NodeVolumeLimits
from controlplane.scheduler.plugins.pod_topology_spread import PodTopologySpread
from controlplane.scheduler.plugins.scheduling_gates import SchedulingGates
from controlplane.scheduler.plugins.taint_toleration import TaintToleration
from controlplane.scheduler.plugins.volume_binding import VolumeBinding
from controlplane.scheduler.plugins.volume_restrictions import VolumeRestrictions
from controlplane.scheduler.plugins.volume_zone import VolumeZone

WEIGHTS: Mapping[str, int] = {
    TaintToleration.name: 3,
    NodeAffinity.name: 2,
    PodTopologySpread.name: 2,
    InterPodAffinity.name: 2,
    NodeResourcesFit.name: 1,
    BalancedAllocation.name: 1,
    ImageLocality.name: 1,
    DynamicResources.name: 1,
}
"""Upstream's defaults. What a pod or a node says outweighs what resources suggest."""

# Names of upstream's that a configuration may mention without effect: what they do is built in, or has no objects here yet.
_BUILT_IN = frozenset(
    {"PrioritySort", "DefaultPreemption"}
)  # fmt: skip


def build(
    wanted: ProfileConfig,
    post: Post,
    storage: Storage | None = None,
    clock: Clock | None = None,
    devices: Devices | None = None,
    gates: Gates = DEFAULTS,
) -> Profile:
    """The profile's plugins, cheapest filters first. Raises click.UsageError for a name that no plugin has."""
    storage, clock = storage or NoStorage(), clock or RealClock()
    dynamic = _dynamic(wanted.args.get(DynamicResources.name) or {}, devices or NoDevices(), clock, gates)
    everything: list[Any] = [
        SchedulingGates(),
        NodeUnschedulable(),
        NodeName(),
        TaintToleration(),
        NodeAffinity(),
        NodePorts(),
        _fit(wanted.args.get(NodeResourcesFit.name) or {}, dynamic.backed),
        VolumeRestrictions(storage),
        NodeVolumeLimits(storage),
        VolumeZone(storage),
        VolumeBinding(storage, clock, float((wanted.args.get(VolumeBinding.name) or {}).get("bindTimeoutSeconds") or 600)),
        PodTopologySpread(),
        InterPodAffinity(),
        dynamic,
        BalancedAllocation(),
        ImageLocality(),
        DefaultBinder(post),
    ]
    known = {each.name for each in everything}
    mentioned = {*wanted.enabled, *wanted.disabled, *wanted.unscored, *wanted.unfiltered, *wanted.args} - {"*"}
    for name in mentioned - known - _BUILT_IN:
        raise click.UsageError(f"scheduler profile {wanted.scheduler_name}: there is no plugin {name}")
    chosen = [each for each in everything if each.name in wanted.enabled or not {each.name, "*"} & wanted.disabled]
    names = {each.name for each in chosen}
    weights = {
        name: wanted.enabled.get(name) or weight
        for name, weight in WEIGHTS.items()
        if name in names and (name in wanted.enabled or not {name, "*"} & wanted.unscored)
    }
    filtering = frozenset(name for name in names if name in wanted.enabled or not {name, "*"} & wanted.unfiltered)
    return Profile(wanted.scheduler_name, chosen, weights, filtering)


def _dynamic(args: Mapping[str, Any], devices: Devices, clock: Clock, gates: Gates) -> DynamicResources:
    timeouts = [
        parse_duration(str(args[field])) if args.get(field) is not None else default
        for field, default in (("filterTimeout", FILTER_SECONDS), ("bindingTimeout", BINDING_SECONDS))
    ]
    return DynamicResources(devices, clock, gates, *timeouts)


def _fit(args: Mapping[str, Any], backed: Backed) -> NodeResourcesFit:
    strategy = args.get("scoringStrategy") or {}
    kind = strategy.get("type") or LEAST_ALLOCATED
    if kind not in (LEAST_ALLOCATED, MOST_ALLOCATED):
        raise click.UsageError(f"NodeResourcesFit: scoringStrategy {kind} is not supported")
    weights = {each["name"]: int(each.get("weight") or 1) for each in strategy.get("resources") or ()}
    return NodeResourcesFit(kind, weights or None, backed)
