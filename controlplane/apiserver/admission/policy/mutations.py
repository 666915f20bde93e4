"""Expressions that make changes, compiled: an ``Object{...}`` to be applied, or a list of ``JSONPatch{...}`` operations.

``Object`` and ``Object.spec.template`` name types of which an expression may set any field. The type checker gets them as
messages with the fields that the expression mentions, their names joined by underscores; what is evaluated makes maps in their
place. Called by the validation of policies and by ``mutator``. Upstream: ``k8s.io/apiserver/pkg/cel/mutation``.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from apimachinery.cel import rewrite, shapes
from apimachinery.cel.admission import NAMESPACE, REQUEST
from apimachinery.cel.environment import CompileError, Environment
from apimachinery.cel.shapes import ANY, STRING, object_of
from controlplane.apiserver.admission.policy.expressions import Compiler, Expression, type_name

APPLY, JSON_PATCH = "ApplyConfiguration", "JSONPatch"
RESULTS = {APPLY: "Object", JSON_PATCH: "list(JSONPatch)"}
_TYPE = re.compile(r"\bObject(?:\.[_a-zA-Z]\w*)+(?=\s*\{)")
_LINE = re.compile(r"(ERROR: <input>:(\d+):\d+: .*\n \| ).*")
_OPERATION = object_of("JSONPatch", {"op": STRING, "path": STRING, "from": STRING, "value": ANY}, "")


def compile_mutation(compiler: Compiler, expression: str, patch_type: str) -> Expression:
    """Raises CompileError. One whose types do not fit their places compiles, and has no value, as upstream finds it later."""
    environment = compiler.mutating()
    types = _Types()
    program = environment.parse(expression, types.note)
    _check(compiler, expression, patch_type, types.used)
    return Expression(expression, None, types.problem) if types.problem else Expression(expression, program)


def stored_mutation(compiler: Compiler, expression: str, patch_type: str) -> Expression:
    """As :func:`compile_mutation`, for one that is in force whether it compiles or not."""
    try:
        return compile_mutation(compiler, expression, patch_type)
    except CompileError as error:
        return Expression(expression, None, str(error))


def _check(compiler: Compiler, expression: str, patch_type: str, used: Mapping[str, set[str]]) -> None:
    joined = {name: name.replace(".", "_") for name in used}
    types = [
        object_of(joined[name], dict.fromkeys(sorted(fields), ANY), "") for name, fields in used.items() if name != "JSONPatch"
    ]
    pool = shapes.pool_of(REQUEST, NAMESPACE, _OPERATION, *types)
    checked = Environment(compiler.declared(), pool=pool, mutations=True)
    try:
        found = type_name(checked.compile(_TYPE.sub(lambda match: match[0].replace(".", "_"), expression)).type)
    except CompileError as error:
        raise CompileError(_as_written(str(error), expression, joined)) from None
    if found != RESULTS[patch_type]:
        raise CompileError(f"must evaluate to {RESULTS[patch_type]} but got {found}")


def _as_written(text: str, expression: str, joined: Mapping[str, str]) -> str:
    lines = expression.split("\n")
    shown = _LINE.sub(lambda match: match[1] + lines[int(match[2]) - 1], text)
    for name in sorted(joined, key=len, reverse=True):
        shown = shown.replace(f"'{joined[name]}'", f"'{name}'")
    return shown


class _Types:
    """The types that an expression makes objects of, and their fields. ``problem``: one stands where another belongs."""

    def __init__(self) -> None:
        self.used: dict[str, set[str]] = {"Object": set()}
        self.problem = ""
        self._names: dict[int, str] = {}  # by node

    def note(self, node: Any) -> None:
        """Makes a map of an object; the innermost comes first."""
        if not node.HasField("struct_expr") or not (name := node.struct_expr.message_name):
            return
        if name != "JSONPatch" and name.partition(".")[0] != "Object":
            raise CompileError(f"compilation failed: undeclared reference to '{name}' (in container '')")
        fields = self.used.setdefault(name, set())
        for entry in node.struct_expr.entries:
            fields.add(entry.field_key)
            if name != "JSONPatch":
                self._compare(entry.value, f"{name}.{entry.field_key}")
        self._names[node.id] = name
        rewrite.as_map(node)

    def _compare(self, value: Any, expected: str) -> None:
        for each in (value,) if value.id in self._names else _written(value):
            found = self._names.get(each.id, expected)
            if found != expected:
                names = f'unexpected type name "{found}", expected "{expected}"'
                self.problem = f"type mismatch: {names}, which matches field name path from root Object type"


def _written(value: Any) -> Iterator[Any]:
    """What a written list or map has in it."""
    if value.HasField("list_expr"):
        yield from value.list_expr.elements
    elif value.HasField("struct_expr"):
        yield from (entry.value for entry in value.struct_expr.entries)
