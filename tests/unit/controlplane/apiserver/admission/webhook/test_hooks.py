"""Which webhooks there are: compiled once, in order, and found by the kind of a write."""

from typing import Any

from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.admission.interface import CREATE, UPDATE, Attributes
from controlplane.apiserver.admission.webhook.hooks import Source
from controlplane.apiserver.authentication.interface import UserInfo
from controlplane.apiserver.service_client import HookError

Object = dict[str, Any]
RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}


class Entry:
    def __init__(self, obj: Object) -> None:
        self._obj = obj

    def decode(self) -> Object:
        return self._obj


class Cache:
    """A watch cache of configurations; ``reads`` counts who looked."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.changed = self.reads = 0

    def put(self, name: str, *webhooks: Object) -> None:
        self.objects[name] = {"metadata": {"name": name}, "webhooks": list(webhooks)}
        self.changed += 1

    def all_held(self) -> list[Entry]:
        self.reads += 1
        return [Entry(obj) for obj in self.objects.values()]


def hook(name: str, **changes: Any) -> Object:
    return {"name": name, "clientConfig": {"url": "https://host/"}, "rules": [RULE], **changes}


def write(operation: str = CREATE, resource: str = "pods") -> Attributes:
    return Attributes(operation, GroupVersionKind("", "v1", "Pod"), resource, "", "n", "x", {}, None, UserInfo("u"))


def found(source: Source, attributes: Attributes) -> list[str]:
    return [each.hook.uid for each in source.candidates(attributes)] if source.any else []


def test_nobody_is_asked_where_nothing_is_configured() -> None:
    cache = Cache()
    source = Source(cache)
    for _ in range(3):
        assert not source.any
    assert cache.reads == 1


def test_configurations_count_by_name_and_webhooks_as_they_are_listed() -> None:
    cache = Cache()
    source = Source(cache)
    cache.put("b", hook("z"), hook("a"), hook("z"))
    cache.put("a", hook("m"))
    assert found(source, write()) == ["a/m/0", "b/z/0", "b/a/0", "b/z/1"]
    assert [each.index for each in source.candidates(write())] == [0, 1, 2, 3]


def test_only_those_whose_rules_are_about_the_write() -> None:
    cache = Cache()
    source = Source(cache)
    cache.put("a", hook("pods"), hook("updates", rules=[{**RULE, "operations": ["UPDATE"]}]))
    assert found(source, write()) == ["a/pods/0"]
    assert found(source, write(UPDATE)) == ["a/updates/0"]
    assert found(source, write(resource="services")) == []
    assert source.candidates(write())[0].index == 0


def test_a_change_counts_at_once_and_compiles_nothing_else_again() -> None:
    cache = Cache()
    source = Source(cache)
    cache.put("a", hook("one"))
    cache.put("b", hook("two"))
    before = {each.hook.uid: each.hook for each in source.candidates(write())} if source.any else {}
    cache.put("b", hook("two", timeoutSeconds=3))
    assert source.any
    after = {each.hook.uid: each.hook for each in source.candidates(write())}
    assert after["a/one/0"] is before["a/one/0"]
    assert (before["b/two/0"].timeout, after["b/two/0"].timeout) == (10.0, 3.0)
    cache.objects.clear()
    cache.changed += 1
    assert found(source, write()) == []


def test_what_cannot_be_used_is_there_to_fail() -> None:
    """A webhook is not forgotten because of a broken part: it fails as its policy says, or is asked more often."""
    cache = Cache()
    source = Source(cache)
    cache.put("a", hook("url", clientConfig={}), hook("selector", objectSelector={"matchLabels": {"?": "?"}}))
    assert source.any
    url, selector = (each.hook for each in source.candidates(write()))
    assert isinstance(url.client, HookError)
    assert selector.match.by_object(write())


def test_policies_are_as_configured() -> None:
    cache = Cache()
    source = Source(cache)
    more = {"failurePolicy": "Ignore", "reinvocationPolicy": "IfNeeded", "sideEffects": "NoneOnDryRun"}
    cache.put("a", hook("one", **more), hook("two", sideEffects="Some"))
    assert source.any
    one, two = (each.hook for each in source.candidates(write()))
    assert (one.fails_open, one.reinvoked, one.dry_runs) == (True, True, True)
    assert (two.fails_open, two.reinvoked, two.dry_runs) == (False, False, False)
