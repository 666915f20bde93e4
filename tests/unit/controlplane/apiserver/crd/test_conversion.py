"""What a conversion webhook is asked, and which of its answers are believed."""

from collections.abc import Callable, Mapping
from typing import Any

import orjson
import pytest

from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.crd.conversion import AT_ONCE, Asking, Memory, Renaming
from controlplane.apiserver.service_client import ClientConfig, HookError

Object = dict[str, Any]
KIND = GroupVersionKind("example.com", "v1", "Widget")
CONVERSION = {"webhook": {"clientConfig": {"url": "https://hook.example.com/convert"}, "conversionReviewVersions": ["v3", "v1"]}}
HOOK = "conversion webhook for example.com/v1, Kind=Widget"


def widget(name: str = "a", version: str = "v1", **more: Any) -> Object:
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": {"x": "y"}}
    return {"apiVersion": f"example.com/{version}", "kind": "Widget", "metadata": meta, **more}


class Hook:
    """Converts by renaming; ``spoil`` may change the review that it answers with."""

    def __init__(self, spoil: Callable[[Object], object] = lambda review: None) -> None:
        self.spoil = spoil
        self.asked: list[Object] = []

    async def post(self, config: ClientConfig, body: bytes, timeout: float, query: Mapping[str, str]) -> bytes:
        review = orjson.loads(body)
        self.asked.append(review)
        request = review["request"]
        made = [{**each, "apiVersion": request["desiredAPIVersion"]} for each in request["objects"]]
        response = {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": made}
        answer = {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}
        self.spoil(answer)
        return orjson.dumps(answer)


def asking(hook: Hook) -> Asking:
    return Asking(KIND, CONVERSION, hook.post)


async def test_only_what_has_another_version_is_asked_for_and_the_order_stays() -> None:
    hook = Hook()
    found = await asking(hook).convert([widget("a"), widget("b", "v2"), widget("c")], "v2")
    assert [each["metadata"]["name"] for each in found] == ["a", "b", "c"]
    assert {each["apiVersion"] for each in found} == {"example.com/v2"}
    (review,) = hook.asked
    assert review["apiVersion"] == "apiextensions.k8s.io/v1"
    assert [each["metadata"]["name"] for each in review["request"]["objects"]] == ["a", "c"]


async def test_nobody_is_asked_for_nothing() -> None:
    hook = Hook()
    assert await asking(hook).convert([widget(version="v2")], "v2") == [widget(version="v2")]
    assert not hook.asked


async def test_many_objects_are_asked_for_in_parts() -> None:
    hook = Hook()
    found = await asking(hook).convert([widget(str(number)) for number in range(AT_ONCE + 1)], "v2")
    assert [each["metadata"]["name"] for each in found] == [str(number) for number in range(AT_ONCE + 1)]
    assert len(hook.asked) == 2


async def test_of_the_metadata_only_labels_and_annotations_may_change() -> None:
    def spoil(review: Object) -> None:
        made = review["response"]["convertedObjects"][0]
        made["metadata"] |= {"labels": {"new": "label"}, "finalizers": ["stranger"], "generation": 7}

    (found,) = await asking(Hook(spoil)).convert([widget()], "v2")
    assert found["metadata"] == {"name": "a", "namespace": "default", "uid": "uid-a", "labels": {"new": "label"}}


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda r: r["response"].update(uid="other"), "failed: expected response.uid="),
        (lambda r: r.pop("response"), "failed: no response provided"),
        (
            lambda r: r.update(kind="Widget"),
            "failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got ",
        ),
        (lambda r: r["response"].update(result={"status": "Failure", "message": "no way"}), "failed: no way"),
        (lambda r: r["response"].update(result={}), "failed: response.result.status was '', not 'Success'"),
        (lambda r: r["response"].update(convertedObjects=[]), "returned 0 objects, expected 1"),
        (
            lambda r: r["response"]["convertedObjects"][0].update(apiVersion="example.com/v1"),
            "at index 0: invalid groupVersion (expected example.com/v2, received example.com/v1)",
        ),
        (
            lambda r: r["response"]["convertedObjects"][0].update(kind="Gadget"),
            "at index 0: invalid kind (expected Widget, received Gadget)",
        ),
        (lambda r: r["response"]["convertedObjects"][0]["metadata"].update(name="b"), "must have the same name: a != b"),
        (lambda r: r["response"]["convertedObjects"][0]["metadata"].update(uid="b"), "must have the same UID: uid-a != b"),
        (lambda r: r["response"]["convertedObjects"][0].pop("metadata"), "missing metadata in converted object"),
        (
            lambda r: r["response"]["convertedObjects"][0]["metadata"].update(labels={"a": 1}),
            "metadata.labels[a] must be a string",
        ),
        (
            lambda r: r["response"]["convertedObjects"][0]["metadata"].update(labels={"a b": "c"}),
            "metadata.labels: Invalid value",
        ),
    ],
)
async def test_an_answer_that_is_not_one_is_refused(spoil: Callable[[Object], object], why: str) -> None:
    with pytest.raises(StatusError) as refused:
        await asking(Hook(spoil)).convert([widget()], "v2")
    assert refused.value.code == 500
    assert refused.value.message.startswith(HOOK)
    assert why in refused.value.message


async def test_a_webhook_that_does_not_answer_is_named() -> None:
    async def post(config: ClientConfig, body: bytes, timeout: float, query: Mapping[str, str]) -> bytes:
        raise HookError("connection refused")

    with pytest.raises(StatusError, match=f"{HOOK} failed: connection refused"):
        await Asking(KIND, CONVERSION, post).convert([widget()], "v2")


async def test_renaming_changes_the_version_alone() -> None:
    given = widget(spec={"size": 1})
    assert await Renaming("example.com").convert([given], "v2") == [{**given, "apiVersion": "example.com/v2"}]
    assert given["apiVersion"] == "example.com/v1"


def test_a_memory_forgets_what_was_longest_unused() -> None:
    memory = Memory(bound=10)
    memory.keep("a", 1, "v1", b"12345")
    memory.keep("b", 1, "v1", b"12345")
    assert memory.get("a", 1, "v1") == b"12345"
    memory.keep("c", 1, "v1", b"123")
    assert [memory.get(key, 1, "v1") for key in "abc"] == [b"12345", None, b"123"]
    assert memory.get("a", 2, "v1") is None
