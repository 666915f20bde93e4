"""AdmissionReviews: the question as upstream puts it, in v1 or v1beta1, and what an answer may be. Pure."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from apimachinery.codecs import json
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.admission.interface import Attributes, Object
from controlplane.apiserver.admission.matching import Matched
from controlplane.apiserver.admission.request import request_of

GROUP = "admission.k8s.io"
VERSIONS = ("v1", "v1beta1")
JSON_PATCH = "JSONPatch"
MAX_NODES = 120_000
"""Keys and values of an answer, and of the patch in it: what an object's body may have. Each costs many times its bytes."""


class InvalidAnswerError(ValueError):
    """The server answered, but not as a webhook may; the text is upstream's."""


@dataclass(frozen=True, slots=True)
class Answer:
    allowed: bool
    status: Object = field(default_factory=dict)  # why not
    patch: bytes = b""
    patch_type: str = ""
    warnings: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)


def version_for(accepted: Sequence[str]) -> str:
    """The first version that both sides know. Raises ValueError."""
    for version in accepted:
        if version in VERSIONS:
            return version
    raise ValueError("webhook does not accept known AdmissionReview versions (v1, v1beta1)")


def question(version: str, uid: str, attributes: Attributes, matched: Matched, obj: Object | None, old: Object | None) -> bytes:
    """``obj`` and ``old`` are in the version that ``matched`` names."""
    request = {
        "uid": uid,
        **request_of(attributes, matched.kind, matched.resource),
        "object": _named(obj, matched.kind),
        "oldObject": _named(old, matched.kind),
    }
    return orjson.dumps({"kind": "AdmissionReview", "apiVersion": f"{GROUP}/{version}", "request": request})


def _named(obj: Object | None, kind: GroupVersionKind) -> Object | None:
    """With its type, whether or not the client wrote it."""
    return None if obj is None else {"kind": kind.kind, "apiVersion": kind.api_version, **obj}


def parsed(data: bytes) -> Any:
    """Raises ValueError for what is no JSON, or more of it than ``MAX_NODES``."""
    if len(data) > MAX_NODES and json.has_more_nodes(data, MAX_NODES):
        raise ValueError(f"more than {MAX_NODES} keys and values")
    return orjson.loads(data)


def answer(body: bytes, version: str, uid: str, *, mutating: bool) -> Answer:
    """Raises InvalidAnswerError; ValueError for what is no review at all."""
    review = parsed(body)
    if not isinstance(review, dict):
        raise ValueError("the answer is no object")
    response = review.get("response")
    if not isinstance(response, dict):
        raise InvalidAnswerError("webhook response was absent")
    patch, patch_type = _bytes(response.get("patch")), response.get("patchType")
    if version == "v1":
        _check_v1(review, response, uid, patch, mutating=mutating)
    elif patch:  # v1beta1 never asked what kind of patch it is
        patch_type = JSON_PATCH
    status, warnings, annotations = (response.get(name) for name in ("status", "warnings", "auditAnnotations"))
    return Answer(
        response.get("allowed") is True,
        status if isinstance(status, dict) else {},
        patch if mutating else b"",
        str(patch_type or "") if mutating else "",
        tuple(str(each) for each in warnings) if isinstance(warnings, list) else (),
        {key: str(value) for key, value in annotations.items()} if isinstance(annotations, dict) else {},
    )


def _bytes(text: Any) -> bytes:
    try:
        return base64.b64decode(text or "", validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise ValueError("response.patch is not base64") from None


def _check_v1(review: Object, response: Object, uid: str, patch: bytes, *, mutating: bool) -> None:
    if response.get("uid") != uid:
        raise InvalidAnswerError(f'expected response.uid="{uid}", got "{response.get("uid") or ""}"')
    group, _, version = str(review.get("apiVersion") or "").rpartition("/")
    found = f"{group}/{version}, Kind={review.get('kind') or ''}"
    if found != (wanted := f"{GROUP}/v1, Kind=AdmissionReview"):
        raise InvalidAnswerError(f"expected webhook response of {wanted}, got {found}")
    kind = response.get("patchType")
    if not mutating:
        for name, given in (("patch", bool(patch)), ("patchType", kind is not None)):
            if given:
                raise InvalidAnswerError(f"validating webhook may not return response.{name}")
        return
    if patch and kind is None:
        raise InvalidAnswerError("webhook returned response.patch but not response.patchType")
    if kind is not None and not patch:
        raise InvalidAnswerError("webhook returned response.patchType but not response.patch")
    if kind == "":
        raise InvalidAnswerError('webhook returned invalid response.patchType of ""')
