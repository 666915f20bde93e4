"""What is written out in an expression and can never be right: refused when it is compiled, as upstream's validators do.

``cel.ASTValidators`` and ``cel.HomogeneousAggregateLiterals`` of cel-go; the evaluator here has none of them. Pure.
"""

import re
from collections.abc import Sequence
from datetime import datetime

from apimachinery.cel.ast import Call, Constant, CreateList, CreateMap, Node, children
from apimachinery.cel.library import regex

_DURATION = re.compile(r"[-+]?(0|((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)")
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_PATTERNS = frozenset({"matches", "find", "findAll"})


def problem(node: Node) -> str:
    """The first thing that is wrong in an expression; empty when nothing is."""
    match node:
        case Call("duration", None, (Constant(str() as text),)) if not _DURATION.fullmatch(text):
            return "invalid duration argument"
        case Call("timestamp", None, (Constant(str() as text),)) if not _is_timestamp(text):
            return "invalid timestamp argument"
        case Call(function, target, arguments) if function in _PATTERNS:
            pattern = arguments[0 if target is not None else 1] if len(arguments) > (target is None) else None
            if isinstance(pattern, Constant) and isinstance(pattern.value, str) and not _is_pattern(pattern.value):
                return f"invalid {function} argument"
        case CreateList(elements) if found := _mixed(elements):
            return found
        case CreateMap(keys, values, "") if found := _mixed(keys) or _mixed(values):
            return found
    return next((found for child in children(node) if (found := problem(child))), "")


def _mixed(nodes: Sequence[Node]) -> str:
    """Literals in one list or map are of one type."""
    kinds = [node.kind for node in nodes if isinstance(node, Constant) and node.kind]
    other = next((kind for kind in kinds if kind != kinds[0]), "")
    return f"expected type '{kinds[0]}' but found '{other}'" if other else ""


def _is_timestamp(text: str) -> bool:
    try:
        datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text.upper()))
    except ValueError:
        return False
    return _TIMESTAMP.fullmatch(text) is not None


def _is_pattern(text: str) -> bool:
    try:
        regex.compiled(text)
    except ValueError:
        return False
    return True
