"""Selectors of devices: expressions over ``device`` in DeviceClasses and requests (``k8s.io/dynamic-resource-allocation/cel``).

The API server compiles them when they are stored, the scheduler asks them of every device in question. ``device`` has
``driver``, ``attributes[domain].name``, ``capacity[domain].name`` and ``allowMultipleAllocations``. A domain that a device says
nothing about is an empty map, so that ``has(device.attributes["example.com"].model)`` is false and not an error.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from apimachinery.cel import cost
from apimachinery.cel.ast import Call, Constant, Ident, Node, Select, children
from apimachinery.cel.environment import BOOL, MAP, STRING, CompileError, Environment, EvaluationError, Program, structure
from apimachinery.cel.library import quantity, semver

MAX_LENGTH = 10 * 1024
"""Characters of a selector's expression, as upstream."""
_VALUES = ("int", "bool", "string", "version")
_LARGEST = cost.Sizes(elements=32, characters=253)
"""Attributes and capacities of a device, and the longest text among names and values."""
_DEVICE = structure("DRADevice", {"driver": STRING, "attributes": MAP, "capacity": MAP, "allowMultipleAllocations": BOOL})


class Selector:
    """One compiled expression. Made by :func:`selector`."""

    def __init__(self, program: Program) -> None:
        self.program = program
        asked, tested = set(_domains(program.tree, "_[_]")), set(_domains(program.tree, "@in"))
        # Who tests for a domain first wants the truth about it.
        self._assumed = frozenset(asked - tested)

    def matches(self, driver: str, device: Mapping[str, Any]) -> bool:
        """Whether an entry of a ResourceSlice of ``driver`` is selected. Raises EvaluationError."""
        attributes: dict[str, dict[str, Any]] = {domain: {} for domain in self._assumed}
        capacity: dict[str, dict[str, Any]] = {domain: {} for domain in self._assumed}
        for name, attribute in (device.get("attributes") or {}).items():
            domain, key = qualified(name, driver)
            attributes.setdefault(domain, {})[key] = _value(name, attribute)
        for name, offered in (device.get("capacity") or {}).items():
            domain, key = qualified(name, driver)
            capacity.setdefault(domain, {})[key] = quantity.make(offered.get("value") or "0")
        shared = bool(device.get("allowMultipleAllocations"))
        values = {"driver": driver, "attributes": attributes, "capacity": capacity, "allowMultipleAllocations": shared}
        found = self.program.evaluate({"device": values})
        if not isinstance(found, bool):
            raise EvaluationError(f"CEL result of type {type(found).__name__} could not be converted to bool")
        return found


def qualified(name: str, driver: str) -> tuple[str, str]:
    """Domain and identifier of an attribute or capacity; the driver's own need no domain."""
    domain, slash, key = name.partition("/")
    return (domain, key) if slash else (driver, name)


@lru_cache(maxsize=256)
def selector(expression: str) -> Selector:
    """Raises CompileError for what is no selector."""
    program = _environment().compile(expression)
    if program.returns not in ("bool", "dyn"):
        raise CompileError(f"must evaluate to bool or the unknown type, not {program.returns}")
    return Selector(program)


def is_too_complex(made: Selector) -> bool:
    """Whether it could cost more than upstream lets a selector cost, on the largest device that can be described."""
    return cost.most(made.program.tree, _LARGEST) > cost.PER_CALL


@lru_cache(maxsize=1)
def _environment() -> Environment:
    return Environment({"device": _DEVICE})


def _value(name: str, attribute: Mapping[str, Any]) -> Any:
    for field in _VALUES:
        given = attribute.get(field)
        if given is None:
            continue
        if field != "version":
            return given
        try:
            return semver.make(given)
        except ValueError as error:
            raise EvaluationError(f"attribute {name}: parse semantic version: {error}") from None
    raise EvaluationError(f"attribute {name}: unsupported attribute value")


def _domains(node: Node, function: str) -> Iterator[str]:
    """Constants with which the expression indexes, or (``@in``) looks into, the attributes or capacities of the device."""
    if isinstance(node, Call) and node.function == function and len(node.args) == 2:
        over, key = node.args if function == "_[_]" else reversed(node.args)
        if isinstance(key, Constant) and isinstance(key.value, str) and _is_of_device(over):
            yield key.value
    for child in children(node):
        yield from _domains(child, function)


def _is_of_device(node: Node) -> bool:
    return isinstance(node, Select) and node.operand == Ident("device") and node.field in ("attributes", "capacity")


__all__ = ["CompileError", "EvaluationError", "Selector", "qualified", "selector"]
