from datetime import UTC, datetime, timedelta

import pytest

from apimachinery import meta

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_clone_shares_nothing() -> None:
    original = {"metadata": {"labels": {"a": "b"}}}
    copied = meta.clone(original)
    copied["metadata"]["labels"]["a"] = "changed"
    assert original == {"metadata": {"labels": {"a": "b"}}}


@pytest.mark.parametrize(("namespace", "name", "key"), [("ns", "web", "ns/web"), ("", "node-1", "node-1")])
def test_keys_go_both_ways(namespace: str, name: str, key: str) -> None:
    assert meta.make_key(namespace, name) == key
    assert meta.split_key(key) == (namespace, name)
    assert meta.key_of({"metadata": {"namespace": namespace, "name": name}}) == key


def test_owner_references() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web", "uid": "u1"}}
    pod: meta.Object = {}
    reference = meta.owner_reference(owner)
    assert meta.add_owner(pod, reference)
    assert not meta.add_owner(pod, reference)
    assert meta.controller_of(pod) == reference
    assert meta.is_controlled_by(pod, owner)
    assert meta.remove_owner(pod, "u1")
    assert pod == {"metadata": {}}
    assert not meta.remove_owner(pod, "u1")


def test_finalizers() -> None:
    obj: meta.Object = {}
    assert meta.add_finalizer(obj, "orphan")
    assert not meta.add_finalizer(obj, "orphan")
    assert meta.has_finalizer(obj, "orphan")
    assert meta.remove_finalizer(obj, "orphan")
    assert obj == {"metadata": {}}


def test_transition_time_moves_only_with_the_status() -> None:
    obj: meta.Object = {}
    assert meta.set_condition(obj, "Ready", "False", now=NOW, reason="Starting")
    later = NOW + timedelta(minutes=1)
    assert meta.set_condition(obj, "Ready", "False", now=later, reason="Waiting", message="for the image")
    assert meta.get_condition(obj, "Ready") == {
        "type": "Ready",
        "status": "False",
        "reason": "Waiting",
        "message": "for the image",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    }
    assert not meta.set_condition(obj, "Ready", "False", now=later, reason="Waiting", message="for the image")
    assert meta.set_condition(obj, "Ready", "True", now=later)
    assert meta.get_condition(obj, "Ready") == {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:05:05Z"}
    assert meta.condition_status(obj, "Ready") == "True"
    assert meta.remove_condition(obj, "Ready")
    assert meta.condition_status(obj, "Ready") == ""
