"""``x-kubernetes-validations`` of a definition: their form, whether they compile, and what they can cost together."""

from collections.abc import Iterator, Mapping
from typing import Any

from apimachinery import fieldpath
from apimachinery.fieldpath import FieldError, Path
from controlplane.apiserver.crd.structural.node import Node, Rule, UnsupportedSchemaError, read
from controlplane.apiserver.crd.structural.paths import FieldPathError, resolve
from controlplane.apiserver.crd.structural.rules import estimate
from controlplane.apiserver.crd.structural.rules.checking import Checker, Judgement
from controlplane.apiserver.crd.structural.rules.declared import Declared, Types
from controlplane.apiserver.kinds.apiextensions.customresourcedefinition.internal import shown_rule

PER_EXPRESSION, PER_SCHEMA = 10_000_000, 100_000_000
"""The most that one expression, and that all of a schema may be estimated to cost."""
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_TOLD = 4  # of the most expensive expressions
_ADVICE = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
)
_NO_TYPE = "failed to convert to declType for CEL validation rules"
_RULES = "x-kubernetes-validations"
Schema = Mapping[str, Any]


def check_form(schema: Schema, path: Path) -> list[FieldError]:
    """What can be said of rules without compiling them."""
    return [
        error
        for at, rule in enumerate(schema.get(_RULES) or ())
        for error in _check_form(rule, schema, (path / _RULES).index(at))
    ]


def _check_form(rule: Rule, schema: Schema, path: Path) -> list[FieldError]:
    text, message = rule.get("rule") or "", rule.get("message") or ""
    found: list[FieldError] = []
    if not text.strip():
        found.append(fieldpath.required(path / "rule", "rule is not specified"))
    elif message and not message.strip():
        found.append(fieldpath.invalid(path / "message", message, "must be non-empty if specified"))
    elif _is_broken(message.strip()):
        found.append(fieldpath.invalid(path / "message", message, "must not contain line breaks"))
    elif _is_broken(text.strip()) and not message.strip():
        found.append(fieldpath.required(path / "message", "message must be specified if rule contains line breaks"))
    expression = rule.get("messageExpression") or ""
    if expression and not expression.strip():
        found.append(fieldpath.required(path / "messageExpression", "messageExpression must be non-empty if specified"))
    reason, place = rule.get("reason"), rule.get("fieldPath") or ""
    if reason is not None and reason not in _REASONS:
        found.append(fieldpath.not_supported(path / "reason", reason, _REASONS))
    if place and not place.strip():
        found.append(fieldpath.invalid(path / "fieldPath", place, "must be non-empty if specified"))
    if _is_broken(place):
        found.append(fieldpath.invalid(path / "fieldPath", place, "must not contain line breaks"))
    if place and not _leads_somewhere(place, schema):
        found.append(fieldpath.invalid(path / "fieldPath", place, "must be a valid path"))
    return found


def _is_broken(text: str) -> bool:
    return "\n" in text or "\r" in text


def _leads_somewhere(place: str, schema: Schema) -> bool:
    try:
        resolve(place, read(dict(schema)))
    except UnsupportedSchemaError:
        return True
    except FieldPathError:
        return False
    return True


class RuleChecks:
    """The rules of one structural schema. ``errors`` are what is wrong with those that have been checked so far."""

    def __init__(self, root: Node, *, may_cost: bool) -> None:
        """``may_cost``: the schema is as it was, and so may be what its rules cost."""
        types = Types()
        declared = {id(node.source): types.of(node, resource=resource) for node, resource in _with_rules(root, resource=True)}
        self._declared: dict[int, Declared | None] = declared
        self._keys = {key: number for number, key in enumerate(declared)}
        self._checker = Checker({self._keys[key]: one for key, one in declared.items() if one is not None})
        self._may_cost = may_cost
        self._costs: list[tuple[int, str]] = []
        self.errors: list[FieldError] = []

    def check(self, schema: Schema, path: Path, times: int | None, uncorrelated: str | None) -> None:
        """``times``: how many values of the schema an object can have; None where nothing bounds them.

        ``uncorrelated`` is the schema above whose values are not found again after an update.
        """
        rules = schema.get(_RULES) or ()
        key = id(schema)
        if not rules or key not in self._declared:
            return
        if self._declared[key] is None:
            self.errors.append(fieldpath.internal(path / _RULES, _NO_TYPE))
            return
        for position, rule in enumerate(rules):
            judged = self._checker.judge(self._keys[key], rule)
            self._judge(rule, judged, (path / _RULES).index(position), times, uncorrelated)

    def _judge(self, rule: Rule, judged: Judgement, path: Path, times: int | None, uncorrelated: str | None) -> None:
        cost = min(estimate.ENDLESS, judged.cost * (judged.most_often if times is None else times))
        self._count(cost, path / "rule", "estimated rule cost")
        if judged.error:
            self.errors.append(fieldpath.invalid(path / "rule", shown_rule(rule), judged.error))
        if judged.message_error:
            self.errors.append(fieldpath.invalid(path / "messageExpression", shown_rule(rule), judged.message_error))
        elif judged.message_cost:
            self._count(judged.message_cost, path / "messageExpression", "estimated messageExpression cost")
        if judged.uses_old and uncorrelated is not None:
            text = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelated}"
            self.errors.append(fieldpath.invalid(path / "rule", rule.get("rule") or "", text))
        elif not judged.uses_old and rule.get("optionalOldSelf") is not None and not judged.error:
            text = "may not be set if oldSelf is not used in rule"
            self.errors.append(fieldpath.invalid(path / "optionalOldSelf", rule["optionalOldSelf"], text))

    def _count(self, cost: int, path: str, what: str) -> None:
        self._costs.append((cost, path))
        if cost > PER_EXPRESSION and not self._may_cost:
            self.errors.append(fieldpath.forbidden(path, _exceeds(what, cost, PER_EXPRESSION)))

    def total_problems(self, path: str) -> list[FieldError]:
        """All rules together; told are those that cost most."""
        total = min(estimate.ENDLESS, sum(cost for cost, _ in self._costs))
        if total <= PER_SCHEMA:
            return []
        told = sorted(self._costs, key=lambda one: -one[0])[:_TOLD]
        text = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        return [
            *(fieldpath.forbidden(where, text) for cost, where in told if cost),
            fieldpath.forbidden(path, _exceeds(what, total, PER_SCHEMA)),
        ]


def _with_rules(node: Node, *, resource: bool) -> Iterator[tuple[Node, bool]]:
    if node.rules:
        yield node, resource
    for inner in node.below():
        yield from _with_rules(inner, resource=inner.embedded)


def _exceeds(what: str, cost: int, limit: int) -> str:
    factor = cost / limit
    told = "more than 100x" if factor > 100 else f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    return f"{what} exceeds budget by factor of {told} {_ADVICE}"


def most_values(schema: Schema, times: int | None) -> int | None:
    """How many values there can be of what is right below ``schema``, of which there can be ``times``."""
    if schema.get("type") == "array":
        limit = schema.get("maxItems")
    elif schema.get("type") == "object" and schema.get("additionalProperties") is not None:
        limit = schema.get("maxProperties")
    else:
        return times
    return None if times is None or limit is None else times * max(limit, 0)
