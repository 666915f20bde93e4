"""Expressions as the evaluator serialises them (``cel.expr.CheckedExpr`` and ``ParsedExpr``), changed node by node.

Called by ``environment`` for what Kubernetes' language has and the evaluator has not: functions whose result is an optional
value, and objects that are made by a type's name (mutations). Only the fields that are changed are described here: the
messages keep the others as they are.
"""

from collections.abc import Callable, Collection
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_INT64, _BOOL, _STRING, _BYTES, _MESSAGE = 3, 8, 9, 12, 11
_ONE, _MANY = 1, 3
_PACKAGE = "pybernetes.cel"
_Field = tuple[str, int, int, int, str]
_MESSAGES: dict[str, tuple[_Field, ...]] = {
    "Wrapped": (("type_url", 1, _STRING, _ONE, ""), ("value", 2, _BYTES, _ONE, "")),
    "Checked": (("expr", 4, _MESSAGE, _ONE, "Expr"),),
    "Parsed": (("expr", 2, _MESSAGE, _ONE, "Expr"),),
    "Constant": (("string_value", 6, _STRING, _ONE, ""),),
    "Ident": (("name", 1, _STRING, _ONE, ""),),
    "Select": (
        ("operand", 1, _MESSAGE, _ONE, "Expr"),
        ("field", 2, _STRING, _ONE, ""),
        ("test_only", 3, _BOOL, _ONE, ""),
    ),
    "Call": (
        ("target", 1, _MESSAGE, _ONE, "Expr"),
        ("function", 2, _STRING, _ONE, ""),
        ("args", 3, _MESSAGE, _MANY, "Expr"),
    ),
    "List": (("elements", 1, _MESSAGE, _MANY, "Expr"),),
    "Entry": (
        ("id", 1, _INT64, _ONE, ""),
        ("field_key", 2, _STRING, _ONE, ""),
        ("map_key", 3, _MESSAGE, _ONE, "Expr"),
        ("value", 4, _MESSAGE, _ONE, "Expr"),
    ),
    "Struct": (("message_name", 1, _STRING, _ONE, ""), ("entries", 2, _MESSAGE, _MANY, "Entry")),
    "Comprehension": tuple((f"part{number}", number, _MESSAGE, _ONE, "Expr") for number in (2, 4, 5, 6, 7)),
    "Expr": (
        ("id", 2, _INT64, _ONE, ""),
        ("const_expr", 3, _MESSAGE, _ONE, "Constant"),
        ("ident_expr", 4, _MESSAGE, _ONE, "Ident"),
        ("select_expr", 5, _MESSAGE, _ONE, "Select"),
        ("call_expr", 6, _MESSAGE, _ONE, "Call"),
        ("list_expr", 7, _MESSAGE, _ONE, "List"),
        ("struct_expr", 8, _MESSAGE, _ONE, "Struct"),
        ("comprehension_expr", 9, _MESSAGE, _ONE, "Comprehension"),
    ),
}


def _classes() -> dict[str, Any]:
    """proto2, in which a text that is there and empty stays: ``''`` is a constant."""
    file = descriptor_pb2.FileDescriptorProto(name="pybernetes/cel.proto", package=_PACKAGE, syntax="proto2")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, label, of in fields:
            typed = {"type_name": f".{_PACKAGE}.{of}"} if of else {}
            message.field.add(name=field, number=number, type=kind, label=label, **typed)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _MESSAGES}


_CLASSES = _classes()
Change = Callable[[Any], None]
"""Told of each node (an ``Expr``), the innermost first; may change it."""


def rewritten(serialised: bytes, change: Change) -> bytes:
    """The expression with every node changed."""
    wrapped = _CLASSES["Wrapped"].FromString(serialised)
    inner = _CLASSES["Parsed" if wrapped.type_url.endswith("ParsedExpr") else "Checked"].FromString(wrapped.value)
    _walk(inner.expr, change)
    wrapped.value = inner.SerializeToString()
    changed: bytes = wrapped.SerializeToString()
    return changed


def _walk(node: Any, change: Change) -> None:
    if node.HasField("select_expr"):
        _walk(node.select_expr.operand, change)
    elif node.HasField("call_expr"):
        if node.call_expr.HasField("target"):
            _walk(node.call_expr.target, change)
        for each in node.call_expr.args:
            _walk(each, change)
    elif node.HasField("list_expr"):
        for each in node.list_expr.elements:
            _walk(each, change)
    elif node.HasField("struct_expr"):
        for entry in node.struct_expr.entries:
            if entry.HasField("map_key"):
                _walk(entry.map_key, change)
            _walk(entry.value, change)
    elif node.HasField("comprehension_expr"):
        for number in (2, 4, 5, 6, 7):
            _walk(getattr(node.comprehension_expr, f"part{number}"), change)
    change(node)


def call_of(node: Any, function: str) -> None:
    """Makes ``node`` the argument of a function."""
    inner = _CLASSES["Expr"]()
    inner.CopyFrom(node)
    node.Clear()
    node.call_expr.function = function
    node.call_expr.args.append(inner)


def as_function(node: Any, function: str) -> None:
    """Makes of a call with a target one without, whose first argument the target is."""
    call = node.call_expr
    given = [call.target, *call.args] if call.HasField("target") else list(call.args)
    made = _CLASSES["Call"](function=function, args=given)
    call.CopyFrom(made)


def as_map(node: Any) -> None:
    """Makes of an object of a named type a map by its fields' names."""
    struct = node.struct_expr
    struct.message_name = ""
    for entry in struct.entries:
        if entry.field_key:
            key = entry.field_key
            entry.ClearField("field_key")
            entry.map_key.const_expr.string_value = key


def as_name(node: Any, names: Collection[str]) -> None:
    """Makes of a field of a variable the variable with a dot in its name, as the type checker does: ``variables.x``."""
    select = node.select_expr
    if node.HasField("select_expr") and not select.test_only and select.operand.HasField("ident_expr"):
        name = f"{select.operand.ident_expr.name}.{select.field}"
        if name in names:
            node.ClearField("select_expr")
            node.ident_expr.name = name
