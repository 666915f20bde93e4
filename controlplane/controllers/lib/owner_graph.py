"""Who depends on whom, over all objects of the cluster, as far as metadata tells. Pure; fed by garbage_collector's watches.

Each change answers with :class:`Effects`: which objects must now be looked at. An owner need not be in the graph to have
dependents: events of different collections arrive in any order.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from apimachinery.meta import FOREGROUND_FINALIZER, ORPHAN_FINALIZER, is_deleting, name_of, namespace_of, uid_of
from controlplane.controllers.lib.discovery import Resource


@dataclass(frozen=True, slots=True)
class Node:
    """One object, as much of it as matters for its deletion."""

    uid: str
    resource: Resource
    namespace: str
    name: str
    version: str
    owners: tuple[Mapping[str, Any], ...]
    deleting: bool
    finalizers: tuple[str, ...]

    @classmethod
    def of(cls, resource: Resource, obj: Mapping[str, Any]) -> "Node":
        metadata = obj["metadata"]
        return cls(
            uid_of(obj),
            resource,
            namespace_of(obj),
            name_of(obj),
            str(metadata.get("resourceVersion") or ""),
            tuple(metadata.get("ownerReferences") or ()),
            is_deleting(obj),
            tuple(metadata.get("finalizers") or ()),
        )

    @property
    def waits_for_dependents(self) -> bool:
        """Foreground deletion: it goes when those that block it have gone."""
        return self.deleting and FOREGROUND_FINALIZER in self.finalizers

    @property
    def orphans_dependents(self) -> bool:
        return self.deleting and ORPHAN_FINALIZER in self.finalizers

    def owned_by(self, uid: str) -> bool:
        return any(owner.get("uid") == uid for owner in self.owners)

    def blocks(self, uid: str) -> bool:
        return any(owner.get("uid") == uid and owner.get("blockOwnerDeletion") for owner in self.owners)

    def answers_to(self, reference: Mapping[str, Any], dependent: "Node") -> bool:
        """Whether this is the owner that the reference means. The uid alone does not do: an owner elsewhere is none."""
        same_place = not self.resource.namespaced or self.namespace == dependent.namespace
        return same_place and self.name == reference.get("name") and self.resource.kind == reference.get("kind")

    def __str__(self) -> str:
        where = f"{self.namespace}/" if self.namespace else ""
        return f"{self.resource.gvr.group_resource} {where}{self.name}"


@dataclass(slots=True)
class Effects:
    """What a change calls for, by uid. ``doubtful`` have an owner that the graph does not know (yet, or any more, or there)."""

    delete: list[str] = field(default_factory=list)
    orphan: list[str] = field(default_factory=list)
    doubtful: list[str] = field(default_factory=list)


class OwnerGraph:
    """Nodes by uid and, for each owner's uid, the uids of its dependents."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._dependents: dict[str, set[str]] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def get(self, uid: str) -> Node | None:
        return self._nodes.get(uid)

    def dependents(self, uid: str) -> Iterator[Node]:
        for each in list(self._dependents.get(uid, ())):
            node = self._nodes.get(each)
            if node is not None:
                yield node

    def blocking(self, uid: str) -> list[Node]:
        return [each for each in self.dependents(uid) if each.blocks(uid)]

    def upsert(self, node: Node) -> Effects:
        """An object as it now is."""
        old = self._nodes.get(node.uid)
        self._nodes[node.uid] = node
        effects = Effects()
        if old is None or old.owners != node.owners:
            self._relink(old, node, effects)
        if node.waits_for_dependents and not (old is not None and old.waits_for_dependents):
            effects.delete += [each.uid for each in self.dependents(node.uid)]
            effects.delete.append(node.uid)
        if node.orphans_dependents and not (old is not None and old.orphans_dependents):
            effects.orphan.append(node.uid)
        return effects

    def _relink(self, old: Node | None, node: Node, effects: Effects) -> None:
        before = {owner["uid"] for owner in old.owners} if old is not None else set()
        after = {owner["uid"] for owner in node.owners}
        for uid in before - after:
            self._unlink(uid, node.uid)
        for uid in after - before:
            self._dependents.setdefault(uid, set()).add(node.uid)
        for uid in before | after:  # a dependent that left, or no longer blocks, may set its owner free
            owner = self._nodes.get(uid)
            if owner is not None and owner.waits_for_dependents:
                effects.delete += [uid, node.uid]
        if self._doubts(node):
            effects.doubtful.append(node.uid)

    def _doubts(self, node: Node) -> bool:
        """Whether some owner is unknown, or is not what the reference says it is."""
        return any((owner := self._nodes.get(each["uid"])) is None or not owner.answers_to(each, node) for each in node.owners)

    def _unlink(self, owner: str, dependent: str) -> None:
        held = self._dependents.get(owner)
        if held is not None:
            held.discard(dependent)
            if not held:
                del self._dependents[owner]

    def remove(self, uid: str) -> Effects:
        """The object is gone: its dependents lost an owner, its owners a dependent."""
        node = self._nodes.pop(uid, None)
        effects = Effects()
        if node is None:
            return effects
        effects.delete += [each.uid for each in self.dependents(uid)]
        for owner_uid in {owner["uid"] for owner in node.owners}:
            self._unlink(owner_uid, uid)
            owner = self._nodes.get(owner_uid)
            if owner is not None and owner.waits_for_dependents:
                effects.delete.append(owner_uid)
        return effects

    def uids_of(self, resource: Resource) -> set[str]:
        """All objects of one collection, for comparing with a fresh list."""
        return {uid for uid, node in self._nodes.items() if node.resource == resource}

    def doubtful(self) -> Iterable[str]:
        """Every object with an owner that is not in the graph; asked once, when all collections were listed."""
        return [uid for uid, node in self._nodes.items() if self._doubts(node)]
