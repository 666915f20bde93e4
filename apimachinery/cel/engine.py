"""The library that parses, checks and evaluates CEL, and its types by name. ``environment`` is its caller.

It takes 16 MB of memory and a tenth of a second, so it is loaded when the first expression is met: a server that has none
does without.
"""

from typing import Any, TypeAlias

TypeName: TypeAlias = Any
"""``"INT"``, ``("List", "STRING")``, ``("Map", "STRING", "DYN")``, the name of a message or of an opaque type, or a type of the
library's own, as programs give it of their results."""

_SIMPLE = frozenset({"BOOL", "BYTES", "DOUBLE", "DURATION", "DYN", "INT", "STRING", "TIMESTAMP"})


def cel() -> Any:
    """The library itself."""
    from cel_expr_python import cel as library

    return library


def extensions() -> list[Any]:
    """Optional values, and cel-go's functions of text, encodings and bindings."""
    from cel_expr_python.ext import ext_bindings, ext_encoders, ext_optional, ext_strings

    return [ext_optional.ExtOptional(), ext_strings.ExtStrings(), ext_encoders.ExtEncoders(), ext_bindings.ExtBindings()]


def type_of(name: TypeName) -> Any:
    """The library's type of that name (or itself)."""
    types = cel().Type
    if isinstance(name, str):
        return getattr(types, name) if name in _SIMPLE else types(name)
    if isinstance(name, tuple):
        generic, *parameters = name
        return getattr(types, generic)(*(type_of(each) for each in parameters))
    return name
