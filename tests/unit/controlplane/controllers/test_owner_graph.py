from dataclasses import replace
from typing import Any

from apimachinery.gvk import GroupVersionResource
from controlplane.controllers.lib.discovery import Resource
from controlplane.controllers.lib.owner_graph import Effects, Node, OwnerGraph

PODS = Resource(GroupVersionResource("", "v1", "pods"), "Pod", True, frozenset())


def node(uid: str, *owners: str, blocks: bool = True, deleting: bool = False, finalizers: tuple[str, ...] = ()) -> Node:
    references: list[dict[str, Any]] = [
        {"uid": owner, "name": owner, "kind": "Pod", "blockOwnerDeletion": blocks} for owner in owners
    ]
    return Node(uid, PODS, "ns", uid, "1", tuple(references), deleting, finalizers)


def deleting(uid: str, finalizer: str, *owners: str) -> Node:
    return node(uid, *owners, deleting=True, finalizers=(finalizer,))


def test_dependents_of_a_removed_owner_are_looked_at() -> None:
    graph = OwnerGraph()
    graph.upsert(node("owner"))
    assert graph.upsert(node("a", "owner")) == Effects()
    assert graph.remove("owner") == Effects(delete=["a"])
    assert list(graph.doubtful()) == ["a"]


def test_a_dependent_seen_before_its_owner_is_doubtful() -> None:
    graph = OwnerGraph()
    assert graph.upsert(node("a", "owner")) == Effects(doubtful=["a"])
    graph.upsert(node("owner"))
    assert [each.uid for each in graph.dependents("owner")] == ["a"]
    assert list(graph.doubtful()) == []


def test_foreground_deletion_waits_for_those_that_block() -> None:
    graph = OwnerGraph()
    graph.upsert(node("owner"))
    graph.upsert(node("a", "owner"))
    graph.upsert(node("b", "owner", blocks=False))
    effects = graph.upsert(deleting("owner", "foregroundDeletion"))
    assert sorted(effects.delete) == ["a", "b", "owner"]
    assert [each.uid for each in graph.blocking("owner")] == ["a"]
    assert graph.remove("a").delete == ["owner"]
    assert graph.blocking("owner") == []


def test_orphaning_is_asked_once() -> None:
    graph = OwnerGraph()
    graph.upsert(node("owner"))
    assert graph.upsert(deleting("owner", "orphan")).orphan == ["owner"]
    assert graph.upsert(deleting("owner", "orphan")).orphan == []


def test_losing_an_owner_unlinks() -> None:
    graph = OwnerGraph()
    graph.upsert(node("owner"))
    graph.upsert(node("a", "owner"))
    graph.upsert(node("a"))
    assert graph.remove("owner").delete == []


def test_a_dependent_that_leaves_sets_a_waiting_owner_free() -> None:
    graph = OwnerGraph()
    graph.upsert(deleting("owner", "foregroundDeletion"))
    graph.upsert(node("a", "owner"))
    assert "owner" in graph.upsert(node("a")).delete


def test_an_owner_in_another_namespace_is_doubtful() -> None:
    graph = OwnerGraph()
    graph.upsert(replace(node("owner"), namespace="elsewhere"))
    assert graph.upsert(node("a", "owner")) == Effects(doubtful=["a"])
    assert list(graph.doubtful()) == ["a"]
