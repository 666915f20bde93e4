"""The Node object: registered at start, its status kept true. ``kubelet.py`` runs :class:`NodeReporter`.

What is written is computed by pure functions from the machine's facts and the runtime's state; it is sent when it changed,
and every five minutes anyway. Heartbeats are the lease's business.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apimachinery import quantity
from apimachinery.errors import StatusError
from apimachinery.meta import get_condition
from apimachinery.names import is_extended_resource
from apimachinery.resources import NODES
from apimachinery.times import format_time
from client.rest import STRATEGIC, Client
from component import logs
from component.clock import Clock, timeout
from node.kubelet.config import KubeletConfig
from node.kubelet.config_resources import PODS
from node.kubelet.eviction.thresholds import reserved
from node.kubelet.machine import Machine
from node.kubelet.recorder import NORMAL, Sink, node_event

VERSION = "v1.36.0"
_EAGER_PERIOD = 0.2
_MAX_IMAGES = 50
_PRESSURES = {
    "MemoryPressure": (
        ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
        ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ),
    "DiskPressure": (
        ("KubeletHasDiskPressure", "kubelet has disk pressure"),
        ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ),
    "PIDPressure": (
        ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
        ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ),
}
_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class RuntimeFacts:
    """What was learnt from the runtime for the status."""

    version: str = ""  # containerd://1.6.20
    problems: Sequence[str] = ()
    network_problem: str = ""
    images: Sequence[Mapping[str, Any]] = ()
    pressures: Sequence[str] = ()
    handlers: Sequence[Mapping[str, Any]] = ()
    """As ``status.runtimeHandlers`` shows them; empty for runtimes that do not tell."""
    features: Mapping[str, bool] | None = None
    """As ``status.features`` shows them: what does not depend on the handler."""

    def user_namespaces(self, handler: str = "") -> bool:
        """Whether the runtime can give pods users of their own."""
        return any(each["name"] == handler and each["features"]["userNamespaces"] for each in self.handlers)

    def recursive_read_only(self, handler: str = "") -> bool:
        """Whether the runtime can make mounts below a read-only one read-only, too."""
        return any(each["name"] == handler and each["features"]["recursiveReadOnlyMounts"] for each in self.handlers)


def labels(config: KubeletConfig, machine: Machine) -> dict[str, str]:
    """The labels this kubelet keeps on its node."""
    return {
        "beta.kubernetes.io/arch": machine.architecture,
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": machine.architecture,
        "kubernetes.io/hostname": config.node_name,
        "kubernetes.io/os": "linux",
        **config.node_labels,
    }


def capacity(config: KubeletConfig, machine: Machine) -> dict[str, str]:
    return {
        "cpu": str(machine.cpus),
        "ephemeral-storage": f"{machine.storage_bytes // 1024}Ki",
        **{name: str(quantity.of(amount, "BinarySI")) for name, amount in machine.hugepages.items()},
        "memory": f"{machine.memory_bytes // 1024}Ki",
        "pods": str(config.max_pods),
    }


def allocatable(config: KubeletConfig, machine: Machine) -> dict[str, str]:
    """Capacity less what is reserved for the system and for Kubernetes, and less what hard eviction keeps free."""
    kept = reserved(config.thresholds(), {"memory": machine.memory_bytes, "ephemeral-storage": machine.storage_bytes})
    left = _less_reserved(config, machine, kept)
    huge = quantity.of(sum(machine.hugepages.values()), "BinarySI")  # memory that is no use for anything else
    memory = quantity.parse(left["memory"]) - huge
    return {**left, "memory": str(memory) if memory.nanos > 0 else "0"}


def pods_memory(config: KubeletConfig, machine: Machine) -> int | None:
    """Bytes that the cgroup of all pods is bounded to; None where nothing is enforced. The part that eviction keeps free
    belongs to it: pods may reach into that, and are then evicted rather than killed."""
    if PODS not in config.enforce_node_allocatable:
        return None
    return quantity.parse(_less_reserved(config, machine, {})["memory"]).value()


def memory_kept(config: KubeletConfig, machine: Machine) -> dict[str, int]:
    """Bytes of memory, and of each size of huge pages, that are not for pods."""
    kept = {"memory": reserved(config.thresholds(), {"memory": machine.memory_bytes}).get("memory", 0)}
    for listed in config.reservations():
        for name, text in listed.items():
            if name == "memory" or name.startswith("hugepages-"):
                kept[name] = kept.get(name, 0) + quantity.parse(text).value()
    return kept


def pods_pids(config: KubeletConfig, machine: Machine) -> int | None:
    """Processes and threads that all pods together may have; None where nothing is enforced or the kernel does not say."""
    if PODS not in config.enforce_node_allocatable or not machine.max_pids:
        return None
    return max(1, machine.max_pids - sum(quantity.parse(listed.get("pid", "0")).value() for listed in config.reservations()))


def _less_reserved(config: KubeletConfig, machine: Machine, kept: Mapping[str, int]) -> dict[str, str]:
    left = {}
    for name, text in capacity(config, machine).items():
        amount = quantity.parse(text)
        if name in kept:
            amount = amount - quantity.of(kept[name], "BinarySI")
        for listed in config.reservations():
            if name in listed:
                amount = amount - quantity.parse(listed[name])
        left[name] = str(amount) if amount.nanos > 0 else "0"
    return left


def conditions(
    held: Mapping[str, Any], problems: Sequence[str], now: datetime, pressures: Collection[str] = ()
) -> list[dict[str, Any]]:
    """The four conditions; ``lastTransitionTime`` moves only with the status, ``lastHeartbeatTime`` always. ``pressures`` are
    those that eviction has found."""
    ready: tuple[str, str, str] = ("True", "KubeletReady", "kubelet is posting ready status")
    if problems:
        text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
        ready = ("False", "KubeletNotReady", text)
    wanted = {
        **{kind: ("True", *bad) if kind in pressures else ("False", *good) for kind, (bad, good) in _PRESSURES.items()},
        "Ready": ready,
    }
    made = []
    for kind, (status, reason, message) in wanted.items():
        before = get_condition(held, kind)
        same = before is not None and before.get("status") == status
        since = before.get("lastTransitionTime") if before is not None and same else None
        made.append(
            {
                "type": kind,
                "status": status,
                "lastHeartbeatTime": format_time(now),
                "lastTransitionTime": since or format_time(now),
                "reason": reason,
                "message": message,
            }
        )
    return made


Offer = tuple[Mapping[str, int], Mapping[str, int]]
"""(capacity, allocatable) of what device plugins offer, by resource."""


def node_status(
    held: Mapping[str, Any],
    config: KubeletConfig,
    machine: Machine,
    facts: RuntimeFacts,
    addresses: Sequence[str],
    now: datetime,
    devices: Offer = ({}, {}),
) -> dict[str, Any]:
    """The whole status; ``held`` is the node as it is."""
    whole, usable = ({name: str(count) for name, count in each.items()} for each in devices)
    return {
        "addresses": [
            *({"type": "InternalIP", "address": address} for address in addresses),
            {"type": "Hostname", "address": config.node_name},
        ],
        "allocatable": {**allocatable(config, machine), **_extended(held), **usable},
        "capacity": {**capacity(config, machine), **whole},
        "conditions": conditions(held, facts.problems, now, facts.pressures),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": config.port}},
        "images": list(facts.images[:_MAX_IMAGES]),
        "nodeInfo": {
            "architecture": machine.architecture,
            "bootID": machine.boot_id,
            "containerRuntimeVersion": facts.version,
            "kernelVersion": machine.kernel,
            "kubeProxyVersion": "",
            "kubeletVersion": VERSION,
            "machineID": machine.machine_id,
            "operatingSystem": "linux",
            "osImage": machine.os_image,
            "systemUUID": machine.system_uuid,
            **({"swap": {"capacity": machine.swap_bytes}} if machine.swap_bytes else {}),
        },
        **({"features": dict(facts.features)} if facts.features is not None else {}),
        **({"runtimeHandlers": list(facts.handlers)} if facts.handlers else {}),
    }


def _extended(held: Mapping[str, Any]) -> dict[str, str | None]:
    """Resources that somebody else counts into the node's capacity (an administrator, by a patch) may be allocated in full.

    None for what is no longer in the capacity: the patch takes it away.
    """
    status = held.get("status") or {}
    offered = {name: str(amount) for name, amount in (status.get("capacity") or {}).items() if is_extended_resource(name)}
    gone = [name for name in status.get("allocatable") or {} if is_extended_resource(name) and name not in offered]
    return {**dict.fromkeys(gone), **offered}


def new_node(config: KubeletConfig, machine: Machine) -> dict[str, Any]:
    """The object to register."""
    spec: dict[str, Any] = {}
    if config.register_with_taints:
        spec["taints"] = [dict(taint) for taint in config.register_with_taints]
    if config.provider_id:
        spec["providerID"] = config.provider_id
    annotations = {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
    metadata = {"name": config.node_name, "labels": labels(config, machine), "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec}


def pod_cidrs(node: Mapping[str, Any]) -> Sequence[str]:
    """The ranges given to a node; empty while it has none."""
    spec = node.get("spec") or {}
    return spec.get("podCIDRs") or ([spec["podCIDR"]] if spec.get("podCIDR") else [])


class NodeReporter:
    """Registers the node and keeps its status. ``look`` asks the runtime; it must not raise."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        config: KubeletConfig,
        machine: Machine,
        addresses: Sequence[str],
        look: Callable[[], Awaitable[RuntimeFacts]],
        events: Sink,
        seen: Callable[[], Mapping[str, Any] | None] = lambda: None,
        devices: Callable[[], Offer] = lambda: ({}, {}),
        fresh: Callable[[], bool] = lambda: False,
    ) -> None:
        """``seen`` is the node as a cache shows it, for what others write into it; None when it does not know. ``fresh``: no
        kubelet has ever run on this machine, so an object of that name tells of another."""
        self._client = client
        self._clock = clock
        self._config = config
        self._machine = machine
        self._addresses = addresses
        self._look = look
        self._events = events
        self._seen = seen
        self._devices = devices
        self._fresh = fresh
        self._node: dict[str, Any] | None = None
        self._soon = asyncio.Event()
        self._sent: dict[str, Any] = {}
        self._sent_at = float("-inf")

    def report_soon(self) -> None:
        """Something has changed that nobody should learn ten seconds late."""
        self._soon.set()

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with timeout(self._clock, seconds):
                await self._soon.wait()
        self._soon.clear()

    async def register(self) -> None:
        """Create the node, or bring the labels of an existing one up to date. Raises StatusError or OSError."""
        wanted = new_node(self._config, self._machine)
        try:
            self._node = await self._client.create(NODES, wanted)
            _log.info("Registered the node", node=self._config.node_name)
            return
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise
        held = await self._client.get(NODES, self._config.node_name)
        current = held["metadata"].get("labels") or {}
        stale = {key: value for key, value in wanted["metadata"]["labels"].items() if current.get(key) != value}
        if stale:
            held = await self._client.patch(NODES, self._config.node_name, {"metadata": {"labels": stale}}, STRATEGIC)
        self._node = await self._without_devices(held) if self._fresh() else held

    async def _without_devices(self, held: dict[str, Any]) -> dict[str, Any]:
        """Devices of a machine that was here before are not here until a plugin offers them. Raises StatusError or OSError."""
        listed = (held.get("status") or {}).get("capacity") or {}
        none = {name: "0" for name, count in listed.items() if is_extended_resource(name) and str(count) != "0"}
        if not none:
            return held
        body = {"status": {"capacity": none, "allocatable": none}}
        return await self._client.patch(NODES, self._config.node_name, body, STRATEGIC, subresource="status")

    async def run(self) -> None:
        """Register, then report until cancelled: often until the node is Ready, then every ten seconds."""
        ready = False
        while True:
            try:
                if self._node is None:
                    if self._config.register_node:
                        await self.register()
                    else:
                        self._node = await self._client.get(NODES, self._config.node_name)
                    self._note("Starting", "Starting kubelet.")
                before, ready = ready, await self.report()
                if ready and not before:
                    self._note("NodeReady", f"Node {self._config.node_name} status is now: NodeReady")
                elif before and not ready:
                    self._note("NodeNotReady", f"Node {self._config.node_name} status is now: NodeNotReady")
            except (StatusError, OSError) as error:
                _log.warning("Cannot report the node's status", node=self._config.node_name, err=error)
                if isinstance(error, StatusError) and error.code == 404:
                    self._node, self._sent = None, {}
                await self._look()  # static pods wait for the network, not for an API server
                await self._clock.sleep(1.0)
                continue
            await self._pause(self._config.node_status_update_frequency if ready else _EAGER_PERIOD)

    async def report(self) -> bool:
        """Look and send what changed; whether the node is Ready. Raises StatusError or OSError."""
        assert self._node is not None
        facts = await self._look()
        now = self._clock.monotonic()
        held, devices = _newer(self._node, self._seen()), self._devices()
        status = node_status(held, self._config, self._machine, facts, self._addresses, self._clock.now(), devices)
        due = now - self._sent_at >= self._config.node_status_report_frequency
        if due or _timeless(status) != _timeless(self._sent):
            changed = status if due else {name: value for name, value in status.items() if self._sent.get(name) != value}
            if "addresses" in changed and self._node.get("status", {}).get("addresses"):
                changed = {**changed, "addresses": [{"$patch": "replace"}, *changed["addresses"]]}
            body = {"status": changed}
            self._node = await self._client.patch(NODES, self._config.node_name, body, STRATEGIC, subresource="status")
            self._sent, self._sent_at = status, now
        return not facts.problems

    def _note(self, reason: str, note: str) -> None:
        node_event(self._events, self._config.node_name, NORMAL, reason, note)


def _newer(known: Mapping[str, Any], seen: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The answer to the last write, or what the cache shows since."""
    if seen is None or seen["metadata"].get("uid") != known["metadata"].get("uid"):
        return known
    versions = [int(each["metadata"].get("resourceVersion") or 0) for each in (known, seen)]
    return seen if versions[1] > versions[0] else known


def _timeless(status: Mapping[str, Any]) -> dict[str, Any]:
    stripped = [{key: each[key] for key in each if key != "lastHeartbeatTime"} for each in status.get("conditions") or ()]
    return {**status, "conditions": stripped}
