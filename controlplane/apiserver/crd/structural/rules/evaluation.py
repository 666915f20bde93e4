"""Rules asked of an object, and of what it was before, within a budget (``cel.Validator``).

A rule that speaks of ``oldSelf`` is asked where the value was there before and can be found again. What a rule says of a value
that stayed as it was is a warning (KEP-4008).
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from apimachinery import fieldpath
from apimachinery.cel.cost import PER_CALL
from apimachinery.cel.environment import TOO_COSTLY, EvaluationError, Inputs, Program
from apimachinery.fieldpath import FieldError
from controlplane.apiserver.crd.structural import correlation
from controlplane.apiserver.crd.structural.correlation import ABSENT
from controlplane.apiserver.crd.structural.node import Node
from controlplane.apiserver.crd.structural.rules import estimate
from controlplane.apiserver.crd.structural.rules.checking import OLD, plain
from controlplane.apiserver.crd.structural.rules.programs import CompiledRule, Rules
from controlplane.apiserver.crd.structural.values import NOWHERE

BUDGET = 10_000_000
"""What all rules of one object may cost: upstream's ``RuntimeCELCostBudget``."""
MAX_MESSAGE = 5 * 1024
_CHEAP = 100  # rules that cost no more are taken to cost what they can
_SPENT = "validation failed due to running out of cost budget, no further validation rules will be run"
_NO_OVERLOAD = "call arguments did not match a supported operator, function or macro signature for rule"


@dataclass(slots=True)
class Findings:
    """``warnings`` are errors that are tolerated because nothing changed."""

    errors: list[FieldError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class _SpentError(Exception):
    """No more rules are run."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A value, what it was, and where: ``around`` is the nearest place above that has a predecessor."""

    value: Any
    old: Any
    node: Node
    path: str
    around: "_Place | None" = None
    same: list[bool] = field(default_factory=list)  # whether it is as it was, once somebody has asked

    def below(self, value: Any, old: Any, node: Node, path: str) -> "_Place":
        return _Place(value, old, node, path, self if self.old is not ABSENT else self.around)

    def is_unchanged(self) -> bool:
        place = self if self.old is not ABSENT else self.around
        if place is None:
            return False
        if not place.same:
            place.same.append(correlation.unchanged(place.value, place.old, place.node))
        return place.same[0]


def evaluate(rules: Rules, obj: Any, old: Any = ABSENT, *, budget: int = BUDGET) -> Findings:
    """What the rules of a schema say of an object that is valid against it."""
    run = _Run(budget)
    with contextlib.suppress(_SpentError):
        run.visit(rules, _Place(obj, old, rules.node, ""))
    return run.findings


class _Given:
    """What the rules of one place are given: measured once and converted once, however many they are."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    @cached_property
    def sizes(self) -> dict[str, estimate.Size]:
        return {name: estimate.of_value(value) for name, value in self._values.items()}

    @cached_property
    def inputs(self) -> Inputs:
        return plain().inputs(self._values)


class _Run:
    def __init__(self, budget: int) -> None:
        self.findings = Findings()
        self._left = budget

    def visit(self, rules: Rules, place: _Place) -> None:
        value, old = place.value, place.old
        if value is None:
            return
        if rules.rules:
            self._ask_all(rules, place)
        if type(value) is dict:
            for key, inner in value.items():
                before = correlation.entry(old, key)
                below = rules.properties.get(key)
                if below is not None:
                    known = ABSENT if not place.path and key in ("apiVersion", "kind") else before
                    path = f"{place.path}.{key}" if place.path else key
                    self.visit(below, place.below(inner, known, below.node, path))
                elif rules.additional is not None and key not in rules.node.properties:
                    more = rules.additional
                    self.visit(more, place.below(inner, before, more.node, f"{place.path}[{key}]"))
        elif type(value) is list and rules.items is not None:
            found = correlation.elements(old, rules.node)
            for position, inner in enumerate(value):
                self.visit(rules.items, place.below(inner, found(inner), rules.items.node, f"{place.path}[{position}]"))

    def _ask_all(self, rules: Rules, place: _Place) -> None:
        convert = rules.convert
        values = {"self": place.value if convert is None else convert(place.value)}
        had = place.old is not ABSENT and place.old is not None
        if had and any(rule.uses_old for rule in rules.rules):
            values[OLD] = place.old if convert is None else convert(place.old)
        given = _Given(values)
        if self._left <= 0:
            self._stop(place, _SPENT)
        for rule in rules.rules:
            if rule.error:
                self._add(_error(place, f"rule compile error: {rule.error}"))
                continue
            program = rule.with_old if had else rule.without_old
            if program is not None:
                self._ask(rule, program, place, given)

    def _ask(self, rule: CompiledRule, program: Program, place: _Place, given: _Given) -> None:
        try:
            self._charge(rule, given, place)
            holds = program.evaluate(given.inputs, bounded=True)
        except EvaluationError as error:
            text = str(error)
            if text.startswith("no such overload"):
                self._add(_error(place, f"'{text}': {_NO_OVERLOAD}: {rule.name}"))
            else:
                self._add(_error(place, f"{text} evaluating rule: {rule.name}"))
            return
        if holds is not True:
            self._refuse(rule, place, given)

    def _charge(self, rule: CompiledRule, given: _Given, place: _Place) -> None:
        cost = rule.most
        if cost > _CHEAP and rule.tree is not None:
            cost = min(cost, estimate.most(rule.tree, given.sizes))
        if cost > self._left:
            self._stop(place, _SPENT)
        self._left -= cost
        if cost > PER_CALL:
            why = "no further validation rules will be run due to call cost exceeds limit for rule"
            self._stop(place, f"'{TOO_COSTLY}': {why}: {rule.name}")

    def _refuse(self, rule: CompiledRule, place: _Place, given: _Given) -> None:
        where = place.path
        if rule.place:
            joint = "" if not where or rule.place.startswith("[") else "."
            where = f"{where}{joint}{rule.place}"
        detail = self._message(rule, given) or _plain_message(rule)
        error = _for_reason(where or NOWHERE, place.node.type, detail, rule.rule.get("reason"))
        if not rule.uses_old and place.is_unchanged():
            self.findings.warnings.append(str(error))
        else:
            self._add(error)

    def _message(self, rule: CompiledRule, given: _Given) -> str:
        """What ``messageExpression`` says; nothing where it fails or says nothing of use."""
        if rule.message is None:
            return ""
        cost = estimate.most(rule.message.tree, given.sizes)
        if cost > min(self._left, PER_CALL):
            return ""
        self._left -= cost
        try:
            said = rule.message.evaluate(given.inputs, bounded=True)
        except EvaluationError:
            return ""
        text = said.strip() if isinstance(said, str) else ""
        return text if len(text.encode()) <= MAX_MESSAGE and "\n" not in text else ""

    def _add(self, error: FieldError) -> None:
        self.findings.errors.append(error)

    def _stop(self, place: _Place, words: str) -> None:
        self._add(_error(place, words))
        raise _SpentError


def _error(place: _Place, words: str) -> FieldError:
    return fieldpath.invalid(place.path or NOWHERE, place.node.type, words)


def _plain_message(rule: CompiledRule) -> str:
    message = str(rule.rule.get("message") or "")
    return message.strip() if message else f"failed rule: {rule.name}"


def _for_reason(path: str, kind: str, detail: str, reason: Any) -> FieldError:
    if reason == "FieldValueForbidden":
        return fieldpath.forbidden(path, detail)
    if reason == "FieldValueRequired":
        return fieldpath.required(path, detail)
    if reason == "FieldValueDuplicate":
        return fieldpath.duplicate(path, kind)
    return fieldpath.invalid(path, kind, detail)
