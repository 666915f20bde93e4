"""Defaults of a schema, filled in (``pkg/apiserver/schema/defaulting``). A null that may not be null takes the default as well.

:func:`compiled` makes a function once per schema; where the schema has no default anywhere, there is none.
"""

from collections.abc import Callable
from typing import Any

import orjson

from controlplane.apiserver.crd.structural.node import Node

Defaulter = Callable[[Any], None]


def compiled(node: Node) -> Defaulter | None:
    """What fills in the defaults below a value of ``node``, in place; the value's own default is for who holds it."""
    own = {name: (_copier(inner.default), inner.nullable) for name, inner in node.properties.items() if inner.default is not None}
    below = {name: made for name, inner in node.properties.items() if (made := compiled(inner)) is not None}
    fields = (*own, *(name for name in below if name not in own))
    more, more_default = _inside(node.additional)
    each, each_default = _inside(node.items)
    known = node.properties

    def fill(value: Any) -> None:
        if type(value) is dict:
            for name, (made, nullable) in own.items():
                if name not in value or (value[name] is None and not nullable):
                    value[name] = made()
            for name in fields:
                if name in below and name in value:
                    below[name](value[name])
            if more is not None or more_default is not None:
                for name in value:
                    if name not in known:
                        value[name] = _completed(value[name], more, more_default)
        elif type(value) is list and (each is not None or each_default is not None):
            for position, inner in enumerate(value):
                value[position] = _completed(inner, each, each_default)

    return fill if fields or more or more_default or each or each_default else None


def _inside(node: Node | None) -> tuple[Defaulter | None, Callable[[], Any] | None]:
    """For the elements of a list or map: what defaults one, and what a null becomes."""
    if node is None:
        return None, None
    return compiled(node), _copier(node.default) if node.default is not None and not node.nullable else None


def _completed(value: Any, fill: Defaulter | None, made: Callable[[], Any] | None) -> Any:
    if value is None and made is not None:
        value = made()
    if fill is not None:
        fill(value)
    return value


def _copier(value: Any) -> Callable[[], Any]:
    """Nobody may change the schema's own copy."""
    if isinstance(value, dict | list):
        text = orjson.dumps(value)
        return lambda: orjson.loads(text)
    return lambda: value
