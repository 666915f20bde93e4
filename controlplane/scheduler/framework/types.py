"""Pods and nodes as the scheduler sees them: parsed once, counted in integers, updated in place.

Made by ``cache``; read by plugins, which never change them.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from apimachinery.labels import Selector, from_label_selector
from apimachinery.meta import Object, key_of, labels_of, name_of, namespace_of, uid_of
from apimachinery.objects import nodes, pods, taints, volumes
from apimachinery.objects.affinity import Predicate, compile_required, node_affinity
from apimachinery.objects.requests import PODS, Resources, allocatable, nonzero_requests, pod_requests

Port = tuple[str, str, int]
"""Protocol, host address, number."""


class AffinityTerm:
    """One pod (anti-)affinity term: which pods it means, and within which topology."""

    __slots__ = ("namespace_selector", "namespaces", "selector", "topology_key", "weight")

    def __init__(self, pod: Object, term: Mapping[str, Any], weight: int = 0) -> None:
        self.selector = selector_with_keys(pod, term)
        self.namespace_selector = (
            from_label_selector(term["namespaceSelector"]) if term.get("namespaceSelector") is not None else None
        )
        listed = frozenset(term.get("namespaces") or ())
        self.namespaces = listed or (frozenset() if self.namespace_selector is not None else frozenset({namespace_of(pod)}))
        self.topology_key = str(term.get("topologyKey") or "")
        self.weight = weight

    def matches(self, pod: "PodInfo", namespace_labels: Mapping[str, str]) -> bool:
        """``namespace_labels`` are those of the namespace of ``pod``."""
        if pod.namespace not in self.namespaces and not (
            self.namespace_selector is not None and self.namespace_selector.matches(namespace_labels)
        ):
            return False
        return self.selector.matches(pod.labels)


def exact_pair(selector: Selector) -> tuple[str, str] | None:
    """One label that everything selected must have, by which an index can be asked."""
    for each in selector.requirements:
        if each.operator in ("=", "==", "in") and len(each.values) == 1:
            return each.key, each.values[0]
    return None


def selector_with_keys(pod: Object, term: Mapping[str, Any]) -> Selector:
    """The term's ``labelSelector``, where ``matchLabelKeys`` and ``mismatchLabelKeys`` stand for the pod's own values.

    The API server writes them into the selector of affinity terms; where it did not, they are added here.
    """
    written = dict(term.get("labelSelector") or {})
    expressions = list(written.get("matchExpressions") or ())
    extra = []
    labels = labels_of(pod)
    for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        for key in term.get(field) or ():
            if key in labels:
                entry = {"key": key, "operator": operator, "values": [labels[key]]}
                if entry not in expressions:
                    extra.append(entry)
    if not extra:
        return from_label_selector(term.get("labelSelector"))
    return from_label_selector({**written, "matchExpressions": [*expressions, *extra]})


def _terms(pod: Object, kind: str) -> tuple[tuple[AffinityTerm, ...], tuple[AffinityTerm, ...]]:
    """(required, preferred) terms of ``podAffinity`` or ``podAntiAffinity``."""
    described = ((pod.get("spec") or {}).get("affinity") or {}).get(kind) or {}
    required = described.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    preferred = described.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    return (
        tuple(AffinityTerm(pod, term) for term in required),
        tuple(AffinityTerm(pod, entry["podAffinityTerm"], int(entry["weight"])) for entry in preferred),
    )


class PodInfo:
    """One pod. Everything that plugins ask per node is worked out here, once."""

    __slots__ = (
        "accepts",
        "affinity",
        "anti_affinity",
        "claims",
        "images",
        "key",
        "labels",
        "name",
        "namespace",
        "nonzero_cpu",
        "nonzero_memory",
        "pod",
        "ports",
        "preferred_affinity",
        "preferred_anti_affinity",
        "priority",
        "requests",
        "signature",
        "spread",
        "tolerations",
        "uid",
        "wanted_node",
    )

    def __init__(self, pod: Object) -> None:
        spec = pods.spec_of(pod)
        self.pod = pod
        self.uid = uid_of(pod)
        self.key = key_of(pod)
        self.name = name_of(pod)
        self.namespace = namespace_of(pod)
        self.labels: Mapping[str, str] = labels_of(pod)
        self.priority = pods.priority(pod)
        self.requests: Resources = {name: count for name, count in pod_requests(pod).items() if count}
        self.nonzero_cpu, self.nonzero_memory = nonzero_requests(pod)
        self.ports: tuple[Port, ...] = tuple(pods.host_ports(pod))
        self.tolerations: list[dict[str, Any]] = list(spec.get("tolerations") or ())
        self.accepts: Predicate | None = compile_required(pod)
        self.images = tuple(
            str(each["image"]) for each in [*(spec.get("initContainers") or ()), *pods.containers(pod)] if each.get("image")
        )
        self.affinity, self.preferred_affinity = _terms(pod, "podAffinity")
        self.anti_affinity, self.preferred_anti_affinity = _terms(pod, "podAntiAffinity")
        names = (volumes.claim_name(pod, volume) for volume in spec.get("volumes") or ())
        self.claims: tuple[str, ...] = tuple(f"{self.namespace}/{name}" for name in names if name)
        self.spread: list[dict[str, Any]] = list(spec.get("topologySpreadConstraints") or ())
        # Of the pod as it was when it was queued: ``pod`` itself is replaced by newer states, bound ones too.
        self.wanted_node = pods.node_name(pod)
        self.signature = self._sign(spec)

    def _sign(self, spec: Mapping[str, Any]) -> bytes:
        """Equal for pods that every node-local plugin treats alike."""
        local = [
            self.requests,
            self.nonzero_cpu,
            self.nonzero_memory,
            self.ports,
            self.tolerations,
            spec.get("nodeSelector"),
            node_affinity(self.pod),
            self.images,
            self.wanted_node,
        ]
        return orjson.dumps(local, option=orjson.OPT_SORT_KEYS)

    @property
    def created(self) -> str:
        return str((self.pod.get("metadata") or {}).get("creationTimestamp") or "")

    @property
    def scores_neighbours(self) -> bool:
        """Whether this pod's wishes count when others are placed near it."""
        return bool(self.affinity or self.preferred_affinity or self.preferred_anti_affinity)


class NodeInfo:
    """One node, what it offers and what the pods on it have taken."""

    __slots__ = (
        "allocatable",
        "allowed_pods",
        "generation",
        "hard_taints",
        "images",
        "labels",
        "name",
        "node",
        "nonzero_cpu",
        "nonzero_memory",
        "pods",
        "ports",
        "preferred_taints",
        "requested",
        "unschedulable",
        "with_affinity",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.node: Object | None = None
        self.labels: Mapping[str, str] = {}
        self.generation = 0
        self.allocatable: Resources = {}
        self.allowed_pods = 0
        self.requested: Resources = {}
        self.nonzero_cpu = 0
        self.nonzero_memory = 0
        self.pods: dict[str, PodInfo] = {}
        self.with_affinity: dict[str, PodInfo] = {}
        self.ports: dict[Port, int] = {}
        self.hard_taints: list[dict[str, Any]] = []
        self.preferred_taints: list[dict[str, Any]] = []
        self.images: dict[str, int] = {}
        self.unschedulable = False

    def set_node(self, node: Object) -> None:
        listed = nodes.taints(node)
        self.node = node
        self.labels = labels_of(node)
        self.allocatable = allocatable(node)
        self.allowed_pods = self.allocatable.get(PODS, 0)
        self.hard_taints = [each for each in listed if each.get("effect") in taints.HARD_EFFECTS]
        self.preferred_taints = [each for each in listed if each.get("effect") == taints.PREFER_NO_SCHEDULE]
        self.unschedulable = nodes.is_unschedulable(node)
        self.images = nodes.image_sizes(node)

    def add(self, pod: PodInfo) -> None:
        self.pods[pod.uid] = pod
        self._count(pod, 1)
        if pod.scores_neighbours:
            self.with_affinity[pod.uid] = pod

    def remove(self, uid: str) -> None:
        pod = self.pods.pop(uid, None)
        if pod is not None:
            self._count(pod, -1)
            self.with_affinity.pop(uid, None)

    def _count(self, pod: PodInfo, sign: int) -> None:
        requested = self.requested
        for name, amount in pod.requests.items():
            requested[name] = requested.get(name, 0) + sign * amount
        self.nonzero_cpu += sign * pod.nonzero_cpu
        self.nonzero_memory += sign * pod.nonzero_memory
        for port in pod.ports:
            count = self.ports.get(port, 0) + sign
            if count:
                self.ports[port] = count
            else:
                del self.ports[port]

    def conflicts(self, ports: Iterable[Port]) -> bool:
        """Whether one of the host ports is taken; the wildcard address collides with every address."""
        for protocol, address, number in ports:
            for held_protocol, held_address, held_number in self.ports:
                if (protocol, number) == (held_protocol, held_number) and (
                    address == held_address or "0.0.0.0" in (address, held_address)  # noqa: S104
                ):
                    return True
        return False

    def clone(self) -> "NodeInfo":
        """For trying out what would happen without some pods."""
        copied = NodeInfo(self.name)
        for field in NodeInfo.__slots__:
            value = getattr(self, field)
            setattr(copied, field, dict(value) if field in _OWN else value)
        return copied


_OWN = frozenset({"requested", "pods", "with_affinity", "ports"})
