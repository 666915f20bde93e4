"""Who may have admission policies read parameters: whoever may read them."""

from types import SimpleNamespace
from typing import Any

import pytest

from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.admission.interface import CREATE, UPDATE, Attributes
from controlplane.apiserver.admission.plugins.policy_parameters import PolicyParameters
from controlplane.apiserver.authentication.interface import UserInfo
from controlplane.apiserver.authorization.interface import Attributes as Asked
from controlplane.apiserver.authorization.interface import Decision

Object = dict[str, Any]
GROUP = "admissionregistration.k8s.io"
SECRETS = {"apiVersion": "v1", "kind": "Secret"}
NAMED = {"name": "s", "namespace": "n", "parameterNotFoundAction": "Deny"}
USER = "user &{eve 7 [a b] map[]}"


class Judge:
    """Allows what it is told to, and remembers what it was asked."""

    def __init__(self, *allowed: tuple[str, ...]) -> None:
        self.allowed, self.asked = allowed, list[tuple[str, ...]]()

    async def authorize(self, asked: Asked) -> tuple[Decision, str]:
        said = (asked.verb, asked.api_group, asked.resource, asked.namespace, asked.name)
        self.asked.append(said)
        return (Decision.ALLOW if said in self.allowed else Decision.NO_OPINION), ""


class Kinds:
    def find(self, kind: GroupVersionKind) -> Any:
        return SimpleNamespace(namespaced=True, resource="secrets") if kind == GroupVersionKind("", "v1", "Secret") else None


async def problem(
    judge: Judge, resource: str, spec: Object, old: Object | None = None, *, groups: tuple[str, ...] = ("a", "b")
) -> str:
    async def lookup(which: str, namespace: str, name: str) -> Object | None:
        assert which in (f"validatingadmissionpolicies.{GROUP}", f"mutatingadmissionpolicies.{GROUP}")
        return {"spec": {"paramKind": SECRETS}} if name == "p" else None

    plugin = PolicyParameters(lookup, judge, Kinds())
    obj = {"metadata": {"name": "x"}, "spec": spec}
    before = None if old is None else {"metadata": {"name": "x"}, "spec": old}
    kind = GroupVersionKind(GROUP, "v1", "Kind")
    user = UserInfo("eve", "7", groups)
    given = Attributes(UPDATE if before else CREATE, kind, resource, "", "", "x", obj, before, user)
    assert plugin.handles(given)
    try:
        await plugin.validate(given)
    except StatusError as refusal:
        return _cause(refusal)
    return ""


def _cause(refusal: StatusError) -> str:
    (cause,) = refusal.status["details"]["causes"]
    assert (refusal.code, cause["reason"]) == (422, "FieldValueForbidden")
    return f"{cause['field']}: {cause['message'].removeprefix('Forbidden: ')}"


@pytest.mark.parametrize("kind", ["validatingadmissionpolic", "mutatingadmissionpolic"])
async def test_who_writes_a_policy_may_get_all_its_parameters(kind: str) -> None:
    needs = f'{USER} must have "get" permission on all objects of the referenced paramKind (kind=Secret, apiVersion=v1)'
    spec = {"paramKind": SECRETS}
    assert await problem(Judge(), f"{kind}ies", spec) == f"spec.paramKind: {needs}"
    assert await problem(Judge(("get", "", "secrets", "*", "*")), f"{kind}ies", spec) == ""


async def test_a_kind_that_nobody_knows_may_be_any() -> None:
    judge = Judge()
    assert await problem(judge, "validatingadmissionpolicies", {"paramKind": {"apiVersion": "e.com/v1", "kind": "Foo"}})
    assert judge.asked == [("get", "e.com", "*", "*", "*")]


@pytest.mark.parametrize("kind", ["validatingadmissionpolicy", "mutatingadmissionpolicy"])
@pytest.mark.parametrize(
    ("reference", "asked"),
    [
        (NAMED, ("get", "", "secrets", "n", "s")),
        ({"selector": {}, "parameterNotFoundAction": "Deny"}, ("list", "", "secrets", "", "")),
    ],
)
async def test_who_binds_a_policy_may_read_what_it_refers_to(kind: str, reference: Object, asked: tuple[str, ...]) -> None:
    spec = {"policyName": "p", "paramRef": reference}
    lacks = f'{USER} does not have "{asked[0]}" permission on the object referenced by paramRef'
    assert await problem(Judge(), f"{kind}bindings", spec) == f"spec.paramRef: {lacks}"
    assert await problem(Judge(asked), f"{kind}bindings", spec) == ""


async def test_a_binding_of_a_policy_that_is_not_there_may_read_anything() -> None:
    judge = Judge()
    said = await problem(judge, "validatingadmissionpolicybindings", {"policyName": "q", "paramRef": NAMED})
    assert said.startswith("spec.paramRef: unable to get policy q to determine minimum required permissions and user ")
    assert judge.asked == [("get", "*", "*", "n", "s")]


async def test_what_stays_as_it_was_is_not_asked_again() -> None:
    judge = Judge()
    policy, binding = {"paramKind": SECRETS}, {"policyName": "p", "paramRef": NAMED}
    assert await problem(judge, "validatingadmissionpolicies", {**policy, "failurePolicy": "Fail"}, policy) == ""
    assert await problem(judge, "validatingadmissionpolicybindings", {**binding, "validationActions": ["Deny"]}, binding) == ""
    assert await problem(judge, "validatingadmissionpolicies", {}) == ""
    assert judge.asked == []
    assert await problem(judge, "validatingadmissionpolicybindings", {**binding, "policyName": "q"}, binding) != ""


async def test_superusers_are_not_asked() -> None:
    assert await problem(Judge(), "validatingadmissionpolicies", {"paramKind": SECRETS}, groups=("system:masters",)) == ""
