"""Policies are refused for what their expressions have wrong, at the field and in upstream's words."""

from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.apiserver.authentication.interface import SERVER
from controlplane.apiserver.kinds.admissionregistration.bindings import ValidatingAdmissionPolicyBindingStrategy
from controlplane.apiserver.kinds.admissionregistration.policies import (
    MutatingAdmissionPolicyStrategy,
    ValidatingAdmissionPolicyStrategy,
)
from controlplane.apiserver.registry.strategy import Context

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CONTEXT = Context(SERVER, "", "p", "create", NOW)
RULE = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}
VALIDATING, MUTATING = ValidatingAdmissionPolicyStrategy(), MutatingAdmissionPolicyStrategy()


def policy(kind: Any = VALIDATING, **spec: Any) -> dict[str, Any]:
    made = {"metadata": {"name": "p"}, "spec": {"matchConstraints": {"resourceRules": [dict(RULE)]}, **spec}}
    kind.default(made)
    return made


def problems(kind: Any = VALIDATING, old: dict[str, Any] | None = None, **spec: Any) -> list[str]:
    obj = policy(kind, **spec)
    found = kind.validate(CONTEXT, obj) if old is None else kind.validate_update(CONTEXT, obj, old)
    return [f"{each.field}: {each.detail}" for each in found]


TRUE = [{"expression": "true"}]


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (
            {"validations": [{"expression": "object.spec.replicas"}]},
            "spec.validations[0].expression: must evaluate to bool but got dyn",
        ),
        (
            {"validations": [{"expression": "request.nme == ''"}]},
            "spec.validations[0].expression: compilation failed: ERROR: <input>:1:8: undefined field 'nme'",
        ),
        (
            {"validations": [{"expression": "params.x == 1"}]},
            "spec.validations[0].expression: compilation failed: ERROR: <input>:1:1: undeclared reference to 'params'",
        ),
        (
            {"validations": [{"expression": "true", "messageExpression": "1"}]},
            "spec.validations[0].messageExpression: must evaluate to string but got int",
        ),
        (
            {"validations": [{"expression": "true", "messageExpression": "string(authorizer.path('/').check('get').allowed())"}]},
            "spec.validations[0].messageExpression: compilation failed: ERROR: <input>:1:8: undeclared reference to 'authorizer'",
        ),
        (
            {"validations": TRUE, "variables": [{"name": "a", "expression": "variables.b"}, {"name": "b", "expression": "1"}]},
            "spec.variables[0].expression: compilation failed: ERROR: <input>:1:1: undeclared reference to 'variables'",
        ),
        (
            {"validations": TRUE, "variables": [{"name": "b", "expression": "1"}, {"name": "a", "expression": "variables.c"}]},
            "spec.variables[1].expression: compilation failed: ERROR: <input>:1:10: undefined field 'c'",
        ),
        (
            {"validations": TRUE, "variables": [{"name": "namespace", "expression": "1"}]},
            "spec.variables[0].name: name is not a valid CEL identifier",
        ),
        (
            {"validations": TRUE, "matchConditions": [{"name": "c", "expression": "1"}]},
            "spec.matchConditions[0].expression: must evaluate to bool but got int",
        ),
        (
            {"auditAnnotations": [{"key": "k", "valueExpression": "1"}]},
            "spec.auditAnnotations[0].valueExpression: must evaluate to one of [string null_type] but got int",
        ),
        (
            {"auditAnnotations": [{"key": "a key", "valueExpression": "'a'"}]},
            "spec.auditAnnotations[0].key: name part must consist of alphanumeric characters",
        ),
        (
            {"validations": TRUE, "paramKind": {"apiVersion": "v1", "kind": "a b"}},
            "spec.paramKind.kind: may have mixed case, but should otherwise match: a DNS-1035 label",
        ),
        (
            {"validations": TRUE, "matchConstraints": {"resourceRules": [{**RULE, "resourceNames": ["a", "a/b", "a"]}]}},
            "spec.matchConstraints.resourceRules[0].resourceNames[1]: may not contain '/'",
        ),
    ],
)
def test_validating(spec: dict[str, Any], problem: str) -> None:
    found = problems(**spec)
    assert any(each.startswith(problem) for each in found), found


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({}, "spec.validations: validations or auditAnnotations must contain at least one item"),
        ({"validations": [{"expression": "true", "message": "a\rb"}]}, "spec.validations[0].message: message must not contain"),
        ({"validations": TRUE, "variables": [{"name": " ", "expression": "1"}]}, "spec.variables[0].name: name is not specified"),
    ],
)
def test_what_is_missing(spec: dict[str, Any], problem: str) -> None:
    assert problem in "\n".join(problems(**spec))


def test_audit_annotations_need_a_name_to_stand_behind() -> None:
    obj = policy(auditAnnotations=[{"key": "k", "valueExpression": "'a'"}])
    obj["metadata"] = {"generateName": "p-"}
    assert [each.detail for each in VALIDATING.validate(CONTEXT, obj)] == ["requires metadata.name be non-empty"]


@pytest.mark.parametrize(
    "spec",
    [
        {"validations": [{"expression": "object.a\n  == 1"}]},
        {
            "validations": [{"expression": "object.spec.replicas <= params.max"}],
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        },
        {"validations": [{"expression": "variables.a == 1"}], "variables": [{"name": "a", "expression": "object.b"}]},
        {"auditAnnotations": [{"key": "k", "valueExpression": "'a'"}], "matchConditions": [{"name": "c", "expression": "true"}]},
        {"validations": [{"expression": "authorizer.requestResource.check('x').allowed()", "messageExpression": "'no'"}]},
    ],
)
def test_what_is_right(spec: dict[str, Any]) -> None:
    assert problems(**spec) == []


def test_conditions_that_did_not_change_are_not_judged_again() -> None:
    bad = {"validations": TRUE, "matchConditions": [{"name": "c", "expression": "1"}]}
    old = policy(**bad)
    assert problems(old=old, **bad) == []
    assert problems(old=old, **bad, paramKind={"apiVersion": "v1", "kind": "ConfigMap"}) != []


def apply(expression: str) -> dict[str, Any]:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patch(expression: str) -> dict[str, Any]:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


@pytest.mark.parametrize(
    ("mutation", "problem"),
    [
        (apply("Object{metadata: Object.metadata{labels: {'a': 'b'}}}"), ""),
        (apply("object.x.all(k, k != '') ? Object{spec: Object.spec{a: ''}} : Object{}"), ""),
        (apply("has(object.x) ? Object{} : Object{spec: Object.spec{?replicas: object.?y}}"), ""),
        (patch("[JSONPatch{op: 'add', path: '/a/' + jsonpatch.escapeKey('b/c'), value: Object.spec{x: 1}}]"), ""),
        (apply("{'metadata': {}}"), "must evaluate to Object but got map(string, map(dyn, dyn))"),
        ({"applyConfiguration": {"expression": "Object{}"}}, "spec.mutations[0].patchType: "),
        (
            {**apply("Object{}"), "patchType": "JSONPatch"},
            "must not be specified when patchType is JSONPatch",
        ),
        (patch(" "), "spec.mutations[0].jsonPatch.expression: "),
        (patch("Object{}"), "must evaluate to list(JSONPatch) but got Object"),
        (patch("[JSONPatch{op: 1}]"), "expected type of field 'op' is 'string' but provided type is 'int'"),
        (patch("[JSONPatch{operation: 'add'}]"), "undefined field 'operation'"),
        (apply("Thing{}"), "undeclared reference to 'Thing'"),
        (
            apply("Object{spec: Object.spec{a: request.nme}}"),
            "<input>:1:36: undefined field 'nme'\n | Object{spec: Object.spec{a: request.nme}}",
        ),
    ],
)
def test_mutating(mutation: dict[str, Any], problem: str) -> None:
    found = problems(MUTATING, mutations=[mutation], reinvocationPolicy="Never")
    assert (problem in found[0]) if problem else not found, found


def test_nothing_is_changed_about_deletions() -> None:
    match = {"resourceRules": [{**RULE, "operations": ["DELETE"]}]}
    found = problems(MUTATING, mutations=[patch("[]")], reinvocationPolicy="Never", matchConstraints=match)
    assert any(each.startswith("spec.matchConstraints.resourceRules[0].operations[0]: supported values:") for each in found), (
        found
    )


def test_bindings() -> None:
    kind = ValidatingAdmissionPolicyBindingStrategy()
    obj = {"metadata": {"name": "b"}, "spec": {"policyName": "A", "paramRef": {"name": "x/y", "parameterNotFoundAction": "Deny"}}}
    found = {each.field: each.detail for each in kind.validate(CONTEXT, obj)}
    assert set(found) == {"spec.policyName", "spec.paramRef.name", "spec.validationActions"}
    assert found["spec.validationActions"] == "at least one validation action is required"
