"""From one version of a custom resource to another: by renaming, or by asking a webhook. Used by ``store``.

Both answer with objects of the wanted version in the order they were given, and leave alone what is in it already. A webhook
is asked once for many objects, and what it said of a stored object is remembered. Rules and words are those of
k8s.io/apiextensions-apiserver ``pkg/apiserver/conversion``.
"""

import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

import orjson

from apimachinery import errors
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.registry import metadata
from controlplane.apiserver.service_client import ClientConfig, HookError

Object = dict[str, Any]
Post = Callable[[ClientConfig, bytes, float, Mapping[str, str]], Awaitable[bytes]]

TIMEOUT = 30.0  # seconds, upstream's
AT_ONCE = 100  # objects in one question
REMEMBERED = 8 << 20  # bytes of converted objects that are kept
_GROUP = "apiextensions.k8s.io"
_KNOWN = ("v1", "v1beta1")


class Converter(Protocol):
    """``asks`` is true when a conversion has to wait for somebody."""

    asks: bool

    async def convert(self, objects: Sequence[Object], version: str) -> list[Object]:
        """The objects in ``version``; those given are not changed. Raises StatusError."""
        ...

    def renamed(self, obj: Object, version: str) -> Object:
        """One object at once; only for converters that do not ask."""
        ...


class Renaming:
    """The strategy ``None``: all versions have the same fields."""

    asks = False

    def __init__(self, group: str) -> None:
        self._group = group

    def renamed(self, obj: Object, version: str) -> Object:
        return {**obj, "apiVersion": f"{self._group}/{version}"}

    async def convert(self, objects: Sequence[Object], version: str) -> list[Object]:
        return [self.renamed(obj, version) for obj in objects]


class Asking:
    """The strategy ``Webhook``."""

    asks = True

    def __init__(self, kind: GroupVersionKind, conversion: Object, post: Post) -> None:
        """``conversion`` is the definition's; ``kind`` has any of the versions."""
        self._kind, self._post = kind, post
        webhook = conversion["webhook"]
        self._client = webhook["clientConfig"]
        self._reviews = webhook.get("conversionReviewVersions") or ()

    def renamed(self, obj: Object, version: str) -> Object:
        raise TypeError("a webhook has to be asked")

    async def convert(self, objects: Sequence[Object], version: str) -> list[Object]:
        wanted = f"{self._kind.group}/{version}"
        foreign = [obj for obj in objects if obj.get("apiVersion") != wanted]
        made: list[Object] = []
        for start in range(0, len(foreign), AT_ONCE):
            made += await self._ask(foreign[start : start + AT_ONCE], wanted)
        answers = iter(made)
        return [obj if obj.get("apiVersion") == wanted else next(answers) for obj in objects]

    async def _ask(self, objects: list[Object], wanted: str) -> list[Object]:
        given = objects[0].get("apiVersion", "")
        hook = f"conversion webhook for {given}, Kind={self._kind.kind}"
        review = next((version for version in self._reviews if version in _KNOWN), None)
        if review is None:
            raise _failed("no supported conversion review versions")
        uid = str(uuid.uuid4())
        request = {"uid": uid, "desiredAPIVersion": wanted, "objects": objects}
        body = {"kind": "ConversionReview", "apiVersion": f"{_GROUP}/{review}", "request": request}
        try:
            answer = await self._post(ClientConfig.parse(self._client), orjson.dumps(body), TIMEOUT, {})
            found = _converted(answer, review, uid)
        except HookError as problem:
            raise _failed(f"{hook} failed: {problem}") from None
        if len(found) != len(objects):
            raise _failed(f"{hook} returned {len(found)} objects, expected {len(objects)}")
        return [_checked(hook, at, *pair, wanted) for at, pair in enumerate(zip(objects, found, strict=True))]


def _failed(why: str) -> errors.StatusError:
    return errors.StatusError(errors.make_status(500, "", why))


def _converted(answer: bytes, version: str, uid: str) -> list[Any]:
    """The objects of a review. Raises HookError."""
    try:
        review = orjson.loads(answer)
    except orjson.JSONDecodeError as problem:
        raise HookError(f"the answer is no JSON: {problem}") from None
    review = review if isinstance(review, dict) else {}
    wanted = f"{_GROUP}/{version}, Kind=ConversionReview"
    found = f"{review.get('apiVersion') or ''}, Kind={review.get('kind') or ''}"
    if version == "v1" and found != wanted:
        raise HookError(f"expected webhook response of {wanted}, got {found}")
    response = review.get("response")
    if not isinstance(response, dict):
        raise HookError("no response provided")
    if version == "v1" and response.get("uid") != uid:
        raise HookError(f'expected response.uid="{uid}", got "{response.get("uid") or ""}"')
    result = response.get("result")
    result = result if isinstance(result, dict) else {}
    if result.get("status") != "Success":
        raise HookError(result.get("message") or f"response.result.status was '{result.get('status') or ''}', not 'Success'")
    objects = response.get("convertedObjects")
    return objects if isinstance(objects, list) else []


def _checked(hook: str, at: int, given: Object, made: Any, wanted: str) -> Object:
    """A converted object with the metadata of the given one, but for labels and annotations. Raises StatusError."""
    made = made if isinstance(made, dict) else {}
    invalid = f"{hook} returned invalid converted object at index {at}"
    if made.get("apiVersion") != wanted:
        raise _failed(f"{invalid}: invalid groupVersion (expected {wanted}, received {made.get('apiVersion') or ''})")
    if made.get("kind") != given["kind"]:
        raise _failed(f"{invalid}: invalid kind (expected {given['kind']}, received {made.get('kind') or ''})")
    meta = made.get("metadata")
    if not isinstance(meta, dict):
        raise _failed(f"{hook} returned invalid metadata in object at index {at}: missing metadata in converted object")
    for field, word in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        before, after = given["metadata"].get(field) or "", meta.get(field) or ""
        if before != after:
            raise _failed(f"{invalid}: must have the same {word}: {before} != {after}")
    kept = {key: value for key, value in given["metadata"].items() if key not in ("labels", "annotations")}
    for field in ("labels", "annotations"):
        if meta.get(field) is not None:
            kept[field] = meta[field]
    if wrong := _wrong_maps(kept):
        raise _failed(f"{hook} returned invalid metadata in object at index {at}: {wrong}")
    return {**made, "metadata": kept}


def _wrong_maps(meta: Object) -> str:
    for field in ("labels", "annotations"):
        values = meta.get(field, {})
        if not isinstance(values, dict):
            return f"invalid metadata.{field} in converted object"
        wrong = next((key for key, value in values.items() if not isinstance(value, str)), None)
        if wrong is not None:
            return f"metadata.{field}[{wrong}] must be a string in converted object"
    found = metadata.validate_maps(meta)
    return str(found[0]) if found else ""


class Memory:
    """Answers of webhooks about stored objects, by key, revision and version: the newest, up to ``REMEMBERED`` bytes."""

    def __init__(self, bound: int = REMEMBERED) -> None:
        self._bound, self._size = bound, 0
        self._held: OrderedDict[tuple[str, int, str], bytes] = OrderedDict()

    def get(self, key: str, revision: int, version: str) -> bytes | None:
        found = self._held.get((key, revision, version))
        if found is not None:
            self._held.move_to_end((key, revision, version))
        return found

    def keep(self, key: str, revision: int, version: str, body: bytes) -> None:
        before = self._held.pop((key, revision, version), b"")
        self._held[(key, revision, version)] = body
        self._size += len(body) - len(before)
        while self._size > self._bound:
            self._size -= len(self._held.popitem(last=False)[1])
