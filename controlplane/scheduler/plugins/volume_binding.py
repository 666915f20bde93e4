"""VolumeBinding: a pod goes where its volumes are, or where they can be made; delayed claims are bound on the way.

Filter finds out, for each node, which volume each unbound claim would get there or that one can be provisioned; Reserve
promises these; PreBind writes the promises (the volume's ``claimRef``, or the claim's selected node) and waits until the
binder and the provisioner have kept them. Rules and words are upstream's ``volumebinding``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from apimachinery import labels, quantity
from apimachinery.errors import StatusError
from apimachinery.meta import (
    Object,
    annotations_of,
    clone,
    is_deleting,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    set_annotation,
    uid_of,
)
from apimachinery.objects import volumes
from component.clock import Clock
from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.events import Action, Cure, On
from controlplane.scheduler.framework.interface import Cluster
from controlplane.scheduler.framework.status import SKIP, Code, Status, unresolvable
from controlplane.scheduler.framework.storage import Storage, is_claim_of
from controlplane.scheduler.framework.types import NodeInfo, PodInfo

NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
WRONG_NODE = "node(s) didn't match PersistentVolume's node affinity"
NO_SPACE = "node(s) did not have enough free storage"
GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
_LOOK_SECONDS = 5.0
"""Changes wake who waits for a binding; this is for a change that was missed."""


@dataclass(slots=True)
class Wants:
    """The claims of one pod, and what each node that was asked could give."""

    bound: list[Object]
    delayed: list[Object]
    offered: list[list[Object]] = field(default_factory=list)
    """For each delayed claim, in the same order, the volumes that would do, the best first."""
    found: dict[str, "Found"] = field(default_factory=dict)
    promised: "Found | None" = None


@dataclass(frozen=True, slots=True)
class Found:
    """What the unbound claims get on one node: volumes that exist, or (``provision``) ones to be made."""

    matches: Sequence[tuple[Object, Object]] = ()
    provision: Sequence[Object] = ()


class VolumeBinding:
    name: ClassVar[str] = "VolumeBinding"
    local: ClassVar[bool] = False

    def __init__(self, storage: Storage, clock: Clock, timeout: float = 600.0) -> None:
        self._storage, self._clock, self._timeout = storage, clock, timeout

    def cures(self) -> Sequence[Cure]:
        changed = Action.ADD | Action.UPDATE_OTHER
        return [
            Cure(On.CLAIM, changed, is_claim_of),
            Cure(On.VOLUME, changed),
            Cure(On.STORAGE_CLASS, changed),
            Cure(On.NODE, Action.ADD | Action.UPDATE_LABELS),
            Cure(On.CSI_NODE, changed),
            Cure(On.CSI_DRIVER, changed),
            Cure(On.CAPACITY, changed),
        ]

    # Looking

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> tuple[Status | None, frozenset[str] | None]:
        if not pod.claims:
            return SKIP, None
        wants = Wants([], [])
        for volume in pod.pod["spec"].get("volumes") or ():
            name = volumes.claim_name(pod.pod, volume)
            if not name:
                continue
            claim = self._storage.claim(pod.namespace, name)
            problem = _unusable(pod.pod, volume, name, claim)
            if problem or claim is None:
                return unresolvable(self.name, problem), None
            if volumes.is_bound(claim):
                wants.bound.append(claim)
            elif volumes.volume_of(claim) or not self._waits(claim):
                return unresolvable(self.name, UNBOUND), None
            else:
                wants.delayed.append(claim)
        # The smallest claims choose first: they leave the large volumes to those that need them.
        wants.delayed.sort(key=volumes.requested_bytes)
        everything = self._storage.volumes() if wants.delayed else ()
        wants.offered = [volumes.candidates(claim, everything) for claim in wants.delayed]
        state.write(self.name, wants)
        return None, None

    def _waits(self, claim: Object) -> bool:
        return volumes.waits_for_pod(self._storage.storage_class(volumes.class_of(claim)))

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        wants: Wants = state.read(self.name)
        if node.node is None:
            return unresolvable(self.name, WRONG_NODE)
        for claim in wants.bound:
            volume = self._storage.volume(volumes.volume_of(claim))
            if volume is None:
                return unresolvable(self.name, GONE)
            if not volumes.accepts_node(volume, node.node):
                return unresolvable(self.name, WRONG_NODE)
        if not wants.delayed:
            return None
        found = self._find(wants, node.node)
        if isinstance(found, str):
            return unresolvable(self.name, found)
        wants.found[node.name] = found
        return None

    def _find(self, wants: Wants, node: Object) -> Found | str:
        """What the node can give, or upstream's reason why it cannot."""
        matches: list[tuple[Object, Object]] = []
        provision: list[Object] = []
        taken = frozenset[str]()
        for claim, offered in zip(wants.delayed, wants.offered, strict=True):
            chosen = annotations_of(claim).get(volumes.SELECTED_NODE)
            volume = None if chosen else volumes.first_for(offered, node, taken)
            if chosen and chosen != name_of(node):
                return NO_VOLUME
            if volume is not None:
                taken |= {name_of(volume)}
                matches.append((claim, volume))
                continue
            if problem := self._cannot_provision(claim, node):
                return problem
            provision.append(claim)
        return Found(matches, provision)

    def _cannot_provision(self, claim: Object, node: Object) -> str:
        kind = self._storage.storage_class(volumes.class_of(claim))
        provisioner = str((kind or {}).get("provisioner") or "")
        if kind is None or provisioner in ("", volumes.NO_PROVISIONER) or not _topology_allows(kind, node):
            return NO_VOLUME
        driver = self._storage.csi_driver(provisioner)
        if driver is None or not (driver.get("spec") or {}).get("storageCapacity"):
            return ""
        size, listed = volumes.requested_bytes(claim), self._storage.capacities(name_of(kind))
        return "" if any(_has_room(capacity, size, node) for capacity in listed) else NO_SPACE

    # Promising

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        wants: Wants | None = state.read(self.name)
        if wants is None or not wants.delayed:
            return None
        found = wants.found.get(node)
        if found is None:
            return Status(Code.ERROR, (f"volumes of pod {pod.key} were not looked at for node {node}",), self.name)
        matches = [(claim, promised_volume(volume, claim)) for claim, volume in found.matches]
        provision = [promised_claim(claim, node) for claim in found.provision]
        wants.promised = Found(matches, provision)
        for _, volume in matches:
            self._storage.intend_volume(volume)
        for claim in provision:
            self._storage.intend_claim(claim)
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        wants: Wants | None = state.read(self.name)
        if wants is not None and wants.promised is not None:
            self._storage.give_up([volume for _, volume in wants.promised.matches], wants.promised.provision)
            wants.promised = None

    # Keeping the promise

    def waits(self, state: CycleState) -> bool:
        """Whether ``pre_bind`` will take as long as others take to make a volume."""
        wants: Wants | None = state.read(self.name)
        return wants is not None and wants.promised is not None

    async def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        wants: Wants | None = state.read(self.name)
        if wants is None or wants.promised is None:
            return None
        until = self._clock.monotonic() + self._timeout
        try:
            for _, volume in wants.promised.matches:
                await self._storage.write_volume(volume)
            for claim in wants.promised.provision:
                await self._storage.write_claim(claim)
        except StatusError as error:
            return Status(Code.ERROR, (f"binding volumes: {error.message}",), self.name)
        keys = [key_of(claim) for claim in (*(claim for claim, _ in wants.promised.matches), *wants.promised.provision)]
        while True:
            problem = self._problem(pod, keys, node, wants.promised)
            if problem is None:
                return None
            if problem:
                return Status(Code.ERROR, (f"binding volumes: {problem}",), self.name)
            left = until - self._clock.monotonic()
            if left <= 0:
                return Status(Code.ERROR, ("binding volumes: context deadline exceeded",), self.name)
            await self._storage.change(keys, min(left, _LOOK_SECONDS))

    def _problem(self, pod: PodInfo, keys: Sequence[str], node: str, promised: Found) -> str | None:
        """None when all is bound; text when it never will be; empty while it is not yet."""
        if not self._storage.pod_exists(pod.namespace, pod.name, pod.uid):
            return f'pod does not exist any more: pod "{pod.name}" not found'
        made = {key_of(claim) for claim in promised.provision}
        pending = False
        for key in keys:
            claim = self._storage.claim(pod.namespace, key.rpartition("/")[2])
            if claim is None:
                return f'failed to check provisioning pvc: persistentvolumeclaim "{key}" not found'
            if volumes.is_bound(claim):
                continue
            pending = True
            if key in made and annotations_of(claim).get(volumes.SELECTED_NODE) != node:
                return f'provisioning failed for PVC "{name_of(claim)}": selectedNode annotation reset'
        return "" if pending else None


def promised_volume(volume: Object, claim: Object) -> Object:
    """The volume, given to the claim; the binder then completes both. Pure."""
    changed = clone(volume)
    if not volumes.is_for(volume, claim):
        set_annotation(changed, volumes.BOUND_BY_CONTROLLER, "yes")
    changed["spec"]["claimRef"] = {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "namespace": namespace_of(claim),
        "name": name_of(claim),
        "uid": uid_of(claim),
        "resourceVersion": claim["metadata"].get("resourceVersion", ""),
    }
    return changed


def promised_claim(claim: Object, node: str) -> Object:
    """The claim, for whose provisioner the node is chosen. Pure."""
    changed = clone(claim)
    set_annotation(changed, volumes.SELECTED_NODE, node)
    return changed


def _unusable(pod: Object, volume: Mapping[str, Any], name: str, claim: Object | None) -> str:
    """Why no node can take a pod with this claim; upstream's words."""
    ephemeral = volume.get("ephemeral") is not None
    if claim is None and ephemeral:
        return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
    if claim is None:
        return f'persistentvolumeclaim "{name}" not found'
    if (claim.get("status") or {}).get("phase") == "Lost":
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volumes.volume_of(claim)}"'
    if is_deleting(claim):
        return f'persistentvolumeclaim "{name}" is being deleted'
    return volumes.not_of_pod(pod, claim) if ephemeral else ""


def _topology_allows(kind: Object, node: Object) -> bool:
    """``allowedTopologies``: any of the terms, each with all of its labels."""
    terms = kind.get("allowedTopologies") or ()
    held = labels_of(node)
    return not terms or any(
        all(held.get(each.get("key", "")) in (each.get("values") or ()) for each in term.get("matchLabelExpressions") or ())
        for term in terms
    )


def _has_room(capacity: Object, size: int, node: Object) -> bool:
    offered = capacity.get("maximumVolumeSize") or capacity.get("capacity")
    if offered is None or quantity.parse(offered).value() < size:
        return False
    topology = capacity.get("nodeTopology")
    return topology is not None and labels.from_label_selector(topology).matches(labels_of(node))
