"""The part of a KubeletConfiguration about resources: reservations, cgroups, CPU, memory and topology manager, swap.

``config`` reads the fields and calls :func:`validate`. Messages are upstream's.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from apimachinery import quantity
from component.featuregates import Gates
from node.kubelet.cm import cpuset
from node.kubelet.cm.cpu_manager import options as cpu_options
from node.kubelet.cm.requests import is_hugepage
from node.kubelet.cm.topology_manager import options as topology_options
from node.kubelet.cm.topology_manager import policy as topology

if TYPE_CHECKING:
    from node.kubelet.config import KubeletConfig

PODS, NOTHING = "pods", "none"
SYSTEM, KUBE = "system-reserved", "kube-reserved"
COMPRESSIBLE = "-compressible"
NO_SWAP, LIMITED_SWAP = "NoSwap", "LimitedSwap"
_QUOTA_PERIOD = 0.1
_RESERVABLE = frozenset({"cpu", "memory", "ephemeral-storage", "pid"})


def reserved_memory(value: Any) -> tuple[Mapping[str, Any], ...]:
    """``reservedMemory`` as it is written. Raises ValueError."""
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ValueError("must be a list of numaNode and limits")
    found = []
    for item in value:
        if unknown := set(item) - {"numaNode", "limits"}:
            raise ValueError(f"unknown field {sorted(unknown)[0]!r}")
        node, limits = item.get("numaNode", 0), item.get("limits") or {}
        if not isinstance(node, int) or isinstance(node, bool) or not isinstance(limits, dict):
            raise ValueError("numaNode must be a whole number, limits a mapping")
        for text in limits.values():
            quantity.parse(str(text))
        found.append({"numaNode": node, "limits": {str(name): str(text) for name, text in limits.items()}})
    return tuple(found)


def reserved_memory_flag(text: str) -> tuple[Mapping[str, Any], ...]:
    """``--reserved-memory``: ``0:memory=1Gi,hugepages-2Mi=64Mi;1:memory=2Gi``. Raises ValueError in upstream's words."""
    found = []
    for reservation in text.split(";"):
        number, colon, listed = reservation.partition(":")
        if not colon or ":" in listed:
            expected = "numaNodeID:type=quantity[,type=quantity...]"
            raise ValueError(f"the reserved memory has incorrect format, expected {expected}, got {reservation}")
        if not number.isascii() or not number.isdigit():
            raise ValueError(f"failed to convert the NUMA node ID, exptected integer, got {number}")
        found.append({"numaNode": int(number), "limits": dict(_limit(limit) for limit in listed.split(","))})
    return tuple(found)


def _limit(text: str) -> tuple[str, str]:
    name, equals, amount = text.partition("=")
    if not equals or "=" in amount:
        raise ValueError(f"the reserved limit has incorrect value, expected type=quantatity, got {text}")
    if name != "memory" and not is_hugepage(name):
        raise ValueError(f'memory type conversion error, unknown type: "{name}"')
    try:
        quantity.parse(amount)
    except ValueError:
        raise ValueError(f"failed to parse the quantatity, expected quantatity, got {amount}") from None
    return name, amount


def validate(config: "KubeletConfig") -> Sequence[str]:
    """What is wrong, in upstream's words."""
    return [*_managers(config), *_cgroups(config), *_reserved(config), *_memory(config)]


def _managers(config: "KubeletConfig") -> Iterator[str]:
    if config.cpu_manager_policy not in ("none", "static"):
        yield f'unknown policy: "{config.cpu_manager_policy}"; cpuManagerPolicy is none or static'
    if config.memory_manager_policy not in ("None", "Static"):
        yield f'unknown policy: "{config.memory_manager_policy}"; memoryManagerPolicy is None or Static'
    if config.topology_manager_policy not in topology.POLICIES:
        listed = " ".join(f'"{name}"' for name in topology.POLICIES)
        yield (
            f"invalid configuration: topologyManagerPolicy (--topology-manager-policy) "
            f'"{config.topology_manager_policy}" must be one of: [{listed}]'
        )
    if config.topology_manager_scope not in ("container", "pod"):
        yield (
            f'invalid configuration: topologyManagerScope (--topology-manager-scope) "{config.topology_manager_scope}" must be '
            f'one of: "container", or "pod"'
        )
    yield from _options(config)


def _options(config: "KubeletConfig") -> Iterator[str]:
    try:
        cpu_options.parse(config.cpu_manager_policy_options, config.features)
        if config.cpu_manager_policy == "none" and config.cpu_manager_policy_options:
            yield "new none policy error: None policy: received unsupported options for static policy"
        topology_options.parse(config.topology_manager_policy_options)
    except ValueError as error:
        yield str(error)


def _cgroups(config: "KubeletConfig") -> Iterator[str]:
    period, custom = config.cpu_cfs_quota_period, config.features.enabled("CustomCPUCFSQuotaPeriod")
    shown = f"invalid configuration: cpuCFSQuotaPeriod (--cpu-cfs-quota-period) {{Duration:{period * 1000:g}ms}}"
    if not custom and period != _QUOTA_PERIOD:
        yield f"{shown} requires feature gate CustomCPUCFSQuotaPeriod"
    if custom and not 0.001 <= period <= 1:
        yield f"{shown} must be between 1ms and 1sec, inclusive"
    yield from _qos_reserved(config.qos_reserved, config.features)
    if config.swap_behavior not in ("", NO_SWAP, LIMITED_SWAP):
        yield (
            f'invalid configuration: memorySwap.swapBehavior "{config.swap_behavior}" must be one of: "", '
            f'"{LIMITED_SWAP}" or "{NO_SWAP}"'
        )


def _qos_reserved(given: Mapping[str, str], gates: Gates) -> Iterator[str]:
    if given and not gates.enabled("QOSReserved"):
        yield "invalid configuration: qosReserved (--qos-reserved) requires feature gate QOSReserved"
    for name, text in given.items():
        number = text.removesuffix("%")
        if name != "memory":
            yield f'--qos-reserved value failed to parse: cannot reserve "{name}" resource'
        elif not text.endswith("%") or not number.isdigit() or int(number) > 100:
            yield f'--qos-reserved value failed to parse: failed to parse percentage "{text}" for "{name}"'


def _reserved(config: "KubeletConfig") -> Iterator[str]:
    for field, listed in (("system", config.system_reserved), ("kube", config.kube_reserved)):
        for name, text in listed.items():
            if name not in _RESERVABLE and not is_hugepage(name):
                yield f'--{field}-reserved value failed to parse: cannot reserve "{name}" resource'
            elif (amount := _amount(text)) is None or amount < 0:
                yield f'--{field}-reserved value failed to parse: resource quantity for "{name}" cannot be read: {text}'
    yield from _enforced(config)
    if not config.reserved_system_cpus:
        return
    if config.system_reserved_cgroup or config.kube_reserved_cgroup:
        yield (
            "invalid configuration: can't use reservedSystemCPUs (--reserved-cpus) with systemReservedCgroup "
            "(--system-reserved-cgroup) or kubeReservedCgroup (--kube-reserved-cgroup)"
        )
    try:
        cpuset.parse(config.reserved_system_cpus)
    except ValueError as error:
        yield (
            f"invalid configuration: unable to parse reservedSystemCPUs (--reserved-cpus) {config.reserved_system_cpus}, "
            f"error: {error}"
        )


def _enforced(config: "KubeletConfig") -> Iterator[str]:
    field, given = "enforceNodeAllocatable (--enforce-node-allocatable)", config.enforce_node_allocatable
    if given and not config.cgroups_per_qos:
        yield f"invalid configuration: {field} is not supported unless cgroupsPerQOS (--cgroups-per-qos) is set to true"
    cgroups = {SYSTEM: config.system_reserved_cgroup, KUBE: config.kube_reserved_cgroup}
    for key in given:
        base = key.removesuffix(COMPRESSIBLE)
        if base in cgroups:
            name = base.partition("-")[0]
            if not cgroups[base]:
                yield (
                    f"invalid configuration: {name}ReservedCgroup (--{name}-reserved-cgroup) must be specified when "
                    f'"{key}" contained in {field}'
                )
            if key == base and key + COMPRESSIBLE in given:
                yield f'invalid configuration: both "{key}" and "{key}{COMPRESSIBLE}" cannot be specified in {field}'
        elif key == NOTHING:
            if len(given) > 1:
                yield f'invalid configuration: {field} may not contain additional enforcements when "{NOTHING}" is specified'
        elif key != PODS:
            listed = ", ".join(f'"{each}"' for each in (PODS, SYSTEM, KUBE, SYSTEM + COMPRESSIBLE, KUBE + COMPRESSIBLE))
            yield f'invalid configuration: option "{key}" specified for {field}. Valid options are {listed} or "{NOTHING}"'


def _memory(config: "KubeletConfig") -> Iterator[str]:
    seen: set[tuple[int, str]] = set()
    for reservation in config.reserved_memory:
        node = reservation["numaNode"]
        for name, text in reservation["limits"].items():
            if name != "memory" and not is_hugepage(name):
                yield (
                    f'invalid configuration: the limit type "{name}" for NUMA node {node} is not supported, only '
                    "[memory hugepages-<HugePageSize>] is accepted"
                )
            if not _amount(text):
                yield f'invalid configuration: reserved memory may not be zero for NUMA node {node} and resource "{name}"'
            if (node, name) in seen:
                yield (
                    f'invalid configuration: the reserved memory has a duplicate value for NUMA node {node} and resource "{name}"'
                )
            seen.add((node, name))


def _amount(text: str) -> int | None:
    try:
        return quantity.parse(str(text)).nanos
    except ValueError:
        return None
