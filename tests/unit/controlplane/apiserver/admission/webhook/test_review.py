"""What is asked and what may be answered, in both versions of AdmissionReview."""

import base64
import json
from typing import Any

import pytest

from apimachinery.gvk import GroupVersion, GroupVersionKind
from controlplane.apiserver.admission.interface import CONNECT, UPDATE, Attributes
from controlplane.apiserver.admission.matching import Matched
from controlplane.apiserver.admission.webhook import review
from controlplane.apiserver.admission.webhook.review import InvalidAnswerError
from controlplane.apiserver.authentication.interface import UserInfo

SCALE = GroupVersionKind("autoscaling", "v1", "Scale")
PATCH = base64.b64encode(b"[]").decode()


def asked(attributes: Attributes, version: str = "v1") -> dict[str, Any]:
    matched = Matched(attributes.gvr, attributes.kind)
    body = review.question(version, "7", attributes, matched, attributes.obj, attributes.old)
    return json.loads(body)  # type: ignore[no-any-return]


def test_the_object_of_a_subresource_is_of_its_own_kind() -> None:
    user = UserInfo("jane", "", ("dev",), {"scopes": ["a"]})
    query = {"fieldManager": "m", "fieldValidation": "Strict", "pretty": "true"}
    attributes = Attributes(UPDATE, SCALE, "deployments", "scale", "n", "web", {"spec": {}}, {"spec": {"replicas": 1}}, user)
    attributes.query, attributes.api = query, GroupVersion("apps", "v1")
    whole = asked(attributes, "v1beta1")
    assert whole["apiVersion"] == "admission.k8s.io/v1beta1"
    request = whole["request"]
    assert request["kind"] == request["requestKind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert request["resource"] == {"group": "apps", "version": "v1", "resource": "deployments"}
    assert (request["subResource"], request["requestSubResource"]) == ("scale", "scale")
    assert request["userInfo"] == {"username": "jane", "groups": ["dev"], "extra": {"scopes": ["a"]}}
    assert request["object"] == {"kind": "Scale", "apiVersion": "autoscaling/v1", "spec": {}}
    assert request["options"] == {
        "kind": "UpdateOptions",
        "apiVersion": "meta.k8s.io/v1",
        "fieldManager": "m",
        "fieldValidation": "Strict",
    }


def test_a_connection_has_options_for_an_object_and_no_others() -> None:
    kind = GroupVersionKind("", "v1", "PodExecOptions")
    request = asked(Attributes(CONNECT, kind, "pods", "exec", "n", "p", {"command": ["sh"]}, None, UserInfo("jane")))["request"]
    assert (request["object"]["command"], request["oldObject"], request["options"]) == (["sh"], None, None)


def test_a_namespace_is_in_the_namespace_of_its_name() -> None:
    kind = GroupVersionKind("", "v1", "Namespace")
    assert asked(Attributes(UPDATE, kind, "namespaces", "", "", "n", {}, {}, UserInfo("jane")))["request"]["namespace"] == "n"


def test_the_first_version_that_both_know_is_spoken() -> None:
    assert review.version_for(["v3", "v1beta1", "v1"]) == "v1beta1"
    with pytest.raises(ValueError, match="does not accept known AdmissionReview versions"):
        review.version_for(["v3"])


def answered(
    mutating: bool = True, version: str = "v1", envelope: dict[str, Any] | None = None, **response: Any
) -> review.Answer:
    said = {"apiVersion": f"admission.k8s.io/{version}", "kind": "AdmissionReview", "response": {"uid": "7", **response}}
    return review.answer(json.dumps(said | (envelope or {})).encode(), version, "7", mutating=mutating)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"envelope": {"response": None}}, "webhook response was absent"),
        ({"uid": "8"}, 'expected response.uid="7", got "8"'),
        ({"envelope": {"kind": ""}}, "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got"),
        ({"envelope": {"apiVersion": "admission.k8s.io/v1beta1"}}, "got admission.k8s.io/v1beta1, Kind=AdmissionReview"),
        ({"patch": PATCH}, "webhook returned response.patch but not response.patchType"),
        ({"patchType": "JSONPatch"}, "webhook returned response.patchType but not response.patch"),
        ({"mutating": False, "patch": PATCH}, "validating webhook may not return response.patch"),
        ({"mutating": False, "patchType": "JSONPatch"}, "validating webhook may not return response.patchType"),
    ],
)
def test_answers_of_v1_are_checked(given: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidAnswerError, match=why):
        answered(**given)


def test_answers_of_v1beta1_are_taken_as_they_come() -> None:
    found = answered(version="v1beta1", envelope={"kind": "", "apiVersion": ""}, uid="8", allowed=True, patch=PATCH)
    assert (found.allowed, found.patch, found.patch_type) == (True, b"[]", "JSONPatch")
    assert answered(mutating=False, version="v1beta1", allowed=True, patch=PATCH).patch == b""


def test_only_true_is_consent() -> None:
    assert not answered().allowed
    assert not answered(allowed="true").allowed
    assert answered(allowed=True).allowed


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"response": {"patch": "?"}}'])
def test_what_is_no_review_at_all(body: bytes) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        review.answer(body, "v1", "7", mutating=True)
    assert not isinstance(caught.value, InvalidAnswerError)


def test_answers_are_weighed_before_they_are_unpacked() -> None:
    with pytest.raises(ValueError, match="more than 120000 keys and values"):
        review.parsed(b"[" + b"[]," * 130_000 + b"[]]")
    text = json.dumps(",[" * 100_000).encode()  # in a string they are text
    assert review.parsed(text) == ",[" * 100_000


def test_parts_of_the_wrong_type_say_nothing() -> None:
    found = answered(allowed=True, warnings="w", auditAnnotations=["x"], status="s")
    assert (found.warnings, found.annotations, found.status) == ((), {}, {})
