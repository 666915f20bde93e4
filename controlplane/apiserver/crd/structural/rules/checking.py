"""The rules of a definition, judged before it is stored: do they compile against the schema's types, and what do they cost?

One environment has the types of the whole schema; a rule is compiled in it with ``self`` bound to its own node's variable.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from apimachinery.cel import shapes
from apimachinery.cel.ast import Comprehension, Node
from apimachinery.cel.environment import ANY, BOOL, BYTES, DOUBLE, INT, STRING, CompileError, Environment, Kind, typed
from apimachinery.cel.shapes import Shape
from controlplane.apiserver.crd.structural.rules import estimate
from controlplane.apiserver.crd.structural.rules.declared import MAX_REQUEST, Declared

Rule = Mapping[str, Any]
OLD = "oldSelf"

_LINE = re.compile(r"<input>:(\d+):")


@dataclass(frozen=True, slots=True)
class Judgement:
    """Of one rule. ``cost`` is that of one evaluation; ``most_often`` how many there can be where nothing bounds them."""

    error: str = ""
    cost: int = 0
    message_error: str = ""
    message_cost: int = 0
    uses_old: bool = False
    most_often: int = 1


class Checker:
    """The environment of one schema. ``declared`` are the types of all nodes that have rules, by a key of the caller's."""

    def __init__(self, declared: Mapping[int, Declared]) -> None:
        self._declared = declared
        self._environment: Environment | None = None

    def judge(self, key: int, rule: Rule) -> Judgement:
        expression, message = str(rule.get("rule") or ""), str(rule.get("messageExpression") or "")
        if not expression.strip():
            return Judgement()
        declared = self._declared[key]
        often = MAX_REQUEST // (declared.least + 1)
        try:
            program = plain().compile(expression)
            checked = self._check(key, expression, optional=bool(rule.get("optionalOldSelf")), result=BOOL)
        except CompileError as error:
            text = str(error)
            return Judgement("cel expression must evaluate to a bool" if text.startswith("must evaluate") else text)
        cost = estimate.most(checked, _scope(declared))
        message_error, message_cost = self._judge_message(key, message, declared) if message.strip() else ("", 0)
        return Judgement("", cost, message_error, message_cost, OLD in program.variables, often)

    def _judge_message(self, key: int, expression: str, declared: Declared) -> tuple[str, int]:
        try:
            plain().compile(expression)
            checked = self._check(key, expression, optional=False, result=STRING)
        except CompileError as error:
            text = str(error)
            return f"messageExpression {'must evaluate to a string' if text.startswith('must evaluate') else text}", 0
        return "", estimate.most(checked, _scope(declared))

    def _check(self, key: int, expression: str, *, optional: bool, result: Kind) -> Node:
        """The expression's tree. Raises CompileError with the lines of the expression."""
        old = f"optional.of(old{key})" if optional else f"old{key}"
        bound = f"cel.bind(self, self{key}, cel.bind({OLD}, {old},\n{expression}\n))"
        try:
            program = self._typed().compile(bound, result)
        except CompileError as error:
            raise CompileError(_LINE.sub(lambda found: f"<input>:{int(found[1]) - 1}:", str(error))) from None
        return _inner(_inner(program.tree))

    def _typed(self) -> Environment:
        if self._environment is None:
            kinds = {key: _kind(declared.shape) for key, declared in self._declared.items()}
            variables = {f"{name}{key}": kind for key, kind in kinds.items() for name in ("self", "old")}
            pool = shapes.pool_of(*(declared.shape for declared in self._declared.values()))
            self._environment = Environment(variables, pool=pool)
        return self._environment


@cache
def plain() -> Environment:
    """Without types: for syntax, and for evaluation."""
    return Environment({"self": ANY, OLD: ANY})


def _inner(tree: Node) -> Node:
    assert isinstance(tree, Comprehension)
    return tree.result


def _scope(declared: Declared) -> dict[str, estimate.Size]:
    return {"self": declared.size, OLD: declared.size}


_KINDS = {"bool": BOOL, "bytes": BYTES, "double": DOUBLE, "int": INT, "string": STRING}
_TIMES = {"timestamp": "TIMESTAMP", "duration": "DURATION"}


def _kind(shape: Shape) -> Kind:
    if shape.kind == "object":
        return typed(shape)
    if shape.kind in ("list", "map"):
        inner = _kind(shape.element).type_name if shape.element is not None else "DYN"
        return Kind(shape.kind, ("List", inner) if shape.kind == "list" else ("Map", "STRING", inner))
    if shape.kind in _TIMES:
        return Kind(shape.kind, _TIMES[shape.kind])
    return _KINDS.get(shape.kind, ANY)
