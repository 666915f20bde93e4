"""The expressions of a ValidatingAdmissionPolicy checked against the types of the objects that it is about. Pure.

Upstream: ``plugin/policy/validating/typechecking.go``, whose texts these are. Types of results do not matter here.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from apimachinery.cel.admission import NAMESPACE, REQUEST
from apimachinery.cel.environment import ANY, AUTHORIZER, CompileError, Environment, Kind, of_type, typed
from apimachinery.cel.shapes import Shape, pool_of
from controlplane.controllers.validatingadmissionpolicy_status.schemas import Schema
from controlplane.controllers.validatingadmissionpolicy_status.shapes import Shapes

Object = dict[str, Any]
Spec = Mapping[str, Any]


def warnings_of(spec: Spec, objects: Sequence[Schema], params: Schema | None) -> list[Object]:
    """The ``expressionWarnings``, in the order of the expressions."""
    checkers = [(each, _checker(spec, each, params)) for each in objects]
    found: list[Object] = []
    for position, validation in enumerate(spec.get("validations") or ()):
        for field in ("expression", "messageExpression"):
            expression = validation.get(field)
            if expression and (text := _check(expression, checkers)):
                found.append({"fieldRef": f"spec.validations[{position}].{field}", "warning": text})
    return found


def _check(expression: str, checkers: Sequence[tuple[Schema, Environment]]) -> str:
    problems = []
    for schema, environment in checkers:
        try:
            environment.compile(expression)
        except CompileError as error:
            text = str(error).removeprefix("compilation failed: ")
            kind = schema.kind
            problems.append(f"{kind.group}/{kind.version}, Kind={kind.kind}: {text}\n")
    return "\n".join(problems)


def _checker(spec: Spec, schema: Schema, params: Schema | None) -> Environment:
    """Variables have the types of their expressions, or any where those cannot be compiled."""
    obj = _shape(schema, "Object")
    param = _shape(params, "Params") if params is not None else None
    pool = pool_of(REQUEST, NAMESPACE, *(each for each in (obj, param) if each is not None and each.kind == "object"))
    declared = {
        "object": _kind(obj),
        "oldObject": _kind(obj),
        "request": typed(REQUEST),
        "namespaceObject": typed(NAMESPACE),
        "authorizer": AUTHORIZER,
    }
    if param is not None:
        declared["params"] = _kind(param)
    environment = Environment(declared, pool=pool)
    for variable in spec.get("variables") or ():
        try:
            found = of_type(environment.compile(variable["expression"]).type)
        except CompileError:
            found = ANY
        declared[f"variables.{variable['name']}"] = found
        environment = Environment(declared, pool=pool)
    return environment


def _shape(schema: Schema, prefix: str) -> Shape:
    return Shapes(schema.definitions, prefix).of(schema.name)


def _kind(shape: Shape) -> Kind:
    return typed(shape) if shape.kind == "object" else ANY
