"""Match conditions of an authorization webhook: CEL over the review that would be sent, to keep requests from it. Pure.

Every field that a review can have is there for expressions, as empty text or an empty collection when it says nothing; whether
the question is about a resource or a path, ``has(request.resourceAttributes)`` tells.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from apimachinery import fields, labels
from component.errors import OperatorError
from controlplane.apiserver.authorization.interface import Attributes

if TYPE_CHECKING:
    from apimachinery.cel.environment import Program


class MatchConditions:
    """Raises OperatorError, naming the condition by ``where``, for an expression that cannot be used."""

    def __init__(self, expressions: Sequence[str], where: str = "matchConditions") -> None:
        self._programs: list[Program] = []
        if not expressions:
            return
        from apimachinery.cel.environment import BOOL, CompileError, Environment

        environment = Environment({"request": _request_kind()})
        for number, expression in enumerate(expressions):
            member = f"{where}[{number}].expression"
            if not expression:
                raise OperatorError(f"{member}: Required value")
            if expression in expressions[:number]:
                raise OperatorError(f"{member}: Duplicate value: {expression!r}")
            try:
                self._programs.append(environment.compile(expression, BOOL))
            except CompileError as error:
                raise OperatorError(f"{member}: Invalid value: {expression!r}: {error}") from None

    def match(self, attributes: Attributes) -> bool:
        """Whether all conditions hold. One that is false decides; else raises EvaluationError when one has no value."""
        if not self._programs:
            return True
        from apimachinery.cel.environment import EvaluationError

        values = {"request": review_of(attributes)}
        failure: EvaluationError | None = None
        for program in self._programs:
            try:
                if program.evaluate(values) is not True:
                    return False
            except EvaluationError as error:
                failure = error
        if failure is not None:
            raise failure
        return True


def _request_kind() -> Any:
    from apimachinery.cel.environment import ANY, LISTS, STRING, STRINGS, structure

    words = ("namespace", "verb", "group", "version", "resource", "subresource", "name")
    selector = structure("Selector", {"rawSelector": STRING, "requirements": ANY})
    resource = structure(
        "ResourceAttributes", {**dict.fromkeys(words, STRING), "fieldSelector": selector, "labelSelector": selector}
    )
    path = structure("NonResourceAttributes", {"path": STRING, "verb": STRING})
    members = {
        "resourceAttributes": resource,
        "nonResourceAttributes": path,
        "user": STRING,
        "groups": STRINGS,
        "extra": LISTS,
        "uid": STRING,
    }
    return structure("SubjectAccessReviewSpec", members)


def review_of(asked: Attributes) -> dict[str, Any]:
    """The spec of the review, every text and collection present."""
    user = asked.user
    spec: dict[str, Any] = {
        "user": user.name,
        "groups": list(user.groups),
        "uid": user.uid,
        "extra": {key: list(values) for key, values in user.extra.items()},
    }
    if not asked.is_resource:
        return {**spec, "nonResourceAttributes": {"path": asked.path, "verb": asked.verb}}
    attributes: dict[str, Any] = {
        "namespace": asked.namespace,
        "verb": asked.verb,
        "group": asked.api_group,
        "version": asked.api_version,
        "resource": asked.resource,
        "subresource": asked.subresource,
        "name": asked.name,
    }
    if asked.field_selector and (wanted := _field_requirements(asked.field_selector)):
        attributes["fieldSelector"] = {"requirements": wanted}
    if asked.label_selector and (wanted := _label_requirements(asked.label_selector)):
        attributes["labelSelector"] = {"requirements": wanted}
    return {**spec, "resourceAttributes": attributes}


def _field_requirements(text: str) -> list[dict[str, Any]]:
    """As reviews have them; none for a selector that cannot be read, which the request itself will be told."""
    try:
        found = fields.parse(text).requirements
    except ValueError:
        return []
    operators = {"=": "In", "!=": "NotIn"}
    return [{"key": each.field, "operator": operators[each.operator], "values": [each.value]} for each in found]


def _label_requirements(text: str) -> list[dict[str, Any]]:
    try:
        found = labels.parse(text).requirements
    except ValueError:
        return []
    operators = {"in": "In", "=": "In", "==": "In", "notin": "NotIn", "!=": "NotIn", "exists": "Exists", "!": "DoesNotExist"}
    made = []
    for each in found:
        operator = operators.get(each.operator)
        if operator is not None:
            values = {"values": sorted(each.values)} if each.values else {}
            made.append({"key": each.key, "operator": operator, **values})
    return made
