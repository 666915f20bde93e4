import pytest

from apimachinery import labels
from client.lister import Lister
from client.store import Store, object_key, split_key


def pod(name, namespace="default", node="", **labels_):
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels_}, "spec": {"nodeName": node}}


def by_node(obj):
    return [obj["spec"]["nodeName"]] if obj["spec"]["nodeName"] else []


@pytest.fixture
def store():
    store = Store()
    for obj in (pod("a", node="n1", app="x"), pod("b", node="n2"), pod("c", "other", node="n1", app="x")):
        store.put(object_key(obj), obj)
    return store


def names(objects):
    return [obj["metadata"]["name"] for obj in objects]


@pytest.mark.parametrize(("key", "parts"), [("ns/a", ("ns", "a")), ("a", (None, "a"))])
def test_keys_split_into_namespace_and_name(key, parts):
    assert split_key(key) == parts


def test_reading_by_name_namespace_and_selector(store):
    lister = Lister(store)
    assert lister.get("a", "default")["spec"]["nodeName"] == "n1"
    assert lister.get("a") is None
    assert lister.get_key("other/c") is lister.get("c", "other")
    assert names(lister.list()) == ["a", "b", "c"]
    assert names(lister.list("other")) == ["c"]
    assert names(lister.list(selector=labels.parse("app=x"))) == ["a", "c"]
    assert names(lister.list("default", labels.parse("!app"))) == ["b"]


def test_an_index_covers_past_and_future_objects(store):
    store.add_index("node", by_node)
    assert names(store.by_index("node", "n1")) == ["a", "c"]
    store.put("default/b", pod("b", node="n1"))
    store.remove("default/a")
    assert names(store.by_index("node", "n1")) == ["c", "b"]
    assert store.by_index("node", "n2") == []
    assert store.index_values("node") == ["n1"]


def test_an_unknown_index_is_an_error(store):
    with pytest.raises(KeyError):
        store.by_index("nope", "x")


def test_an_index_name_stands_for_one_function(store):
    store.add_index("node", by_node)
    store.add_index("node", by_node)
    with pytest.raises(ValueError, match="exists already"):
        store.add_index("node", lambda obj: [])


def test_put_and_remove_return_what_was_there(store):
    assert store.put("default/a", pod("a"))["spec"]["nodeName"] == "n1"
    assert store.remove("nope") is None
