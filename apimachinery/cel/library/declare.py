"""Functions as a table: what the type checker is told of each overload, and what is called at run time.

At run time the evaluator tells only kinds apart (list, text, message), so that overloads that differ in a list's elements or
in the type of a message get one implementation between them, which looks at the values.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from apimachinery.cel import values

Implementation = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class T:
    """A type as a declaration names it."""

    name: str
    parameters: "tuple[T, ...]" = ()

    def declared(self) -> dict[str, Any]:
        return {"type_name": self.name, "params": [each.declared() for each in self.parameters]}

    @property
    def signature(self) -> str:
        return self.name + (f"<{','.join(each.signature for each in self.parameters)}>" if self.parameters else "")

    @property
    def kind(self) -> str:
        return "message" if self.name in values.NAMES else self.name


BOOL, INT, UINT, DOUBLE, STRING, BYTES = (T(name) for name in ("bool", "int", "uint", "double", "string", "bytes"))
DURATION, TIMESTAMP, ANYTHING = T("duration"), T("timestamp"), T("dyn")


def list_of(element: T) -> T:
    return T("list", (element,))


@dataclass(frozen=True, slots=True)
class Overload:
    function: str
    id: str
    parameters: tuple[T, ...]
    result: T
    implementation: Implementation
    member: bool = False

    def declared(self) -> dict[str, Any]:
        written = [each.declared() for each in self.parameters]
        target = {"target": written.pop(0)} if self.member else {}
        return {"id": self.id, **target, "args": written, "return": self.result.declared()}

    @property
    def told_apart_by(self) -> tuple[Any, ...]:
        return self.function, self.member, tuple(each.kind for each in self.parameters)


def declarations(overloads: Iterable[Overload]) -> list[dict[str, Any]]:
    """The functions, as an environment's configuration has them."""
    functions: dict[str, list[dict[str, Any]]] = {}
    for each in overloads:
        functions.setdefault(each.function, []).append(each.declared())
    return [{"name": name, "overloads": found} for name, found in functions.items()]


def implementations(overloads: Iterable[Overload]) -> dict[str, Implementation]:
    """By the id of the first overload of those that are one at run time."""
    groups: dict[tuple[Any, ...], list[Overload]] = {}
    for each in overloads:
        groups.setdefault(each.told_apart_by, []).append(each)
    return {group[0].id: _one_of(group) for group in groups.values()}


def _one_of(group: list[Overload]) -> Implementation:
    first = group[0]
    messages = [position for position, each in enumerate(first.parameters) if each.kind == "message"]
    if not messages:
        return first.implementation
    by_names: Mapping[tuple[str, ...], Implementation] = {
        tuple(each.parameters[position].name for position in messages): each.implementation for each in group
    }

    def call(*arguments: Any) -> Any:
        found = by_names.get(tuple(values.name_of(arguments[position]) for position in messages))
        if found is None:
            raise ValueError("no such overload")
        return found(*arguments)

    return call
