"""How much an expression can cost at most, before it is evaluated: evaluation cannot be stopped once it has begun.

One unit is about one step, as in cel-go's checker, whose rules these follow in the large: a variable, a field or a call is one, a
list ten, text is a tenth per character that is looked at, and a loop is its body times the length of what it runs over.
What is known of a value is the most its size can be. Sizes and costs grow no further than ``ENDLESS``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apimachinery.cel.ast import Call, Comprehension, Constant, CreateList, CreateMap, Ident, Node, Select

ENDLESS = 1 << 62
PER_CALL = 1_000_000
"""The most that one evaluation may cost: upstream's ``PerCallLimit`` (``k8s.io/apiserver/pkg/apis/cel``)."""
_MAKE = 10
_MEMBERS_ON_TEXT = """
    matches contains startsWith endsWith find findAll split replace join lowerAscii upperAscii format size indexOf lastIndexOf
    trim substring reverse charAt string bytes
    quantity isQuantity semver isSemver url isURL ip isIP ip.isCanonical cidr isCIDR containsIP containsCIDR
"""
_ON_TEXT = frozenset({*_MEMBERS_ON_TEXT.split(), "_+_"})
_COMPARED = frozenset({"_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"})
_OVER_LISTS = frozenset({"isSorted", "sum", "min", "max", "indexOf", "lastIndexOf", "@in", "cel.@mapInsert"})
_SAME_LIST = frozenset({"_?._", "dyn", "or", "orValue", "value", "optional.of", "optional.none", "optional.ofNonZeroValue"})
"""They give back one of the lists that they were given, or a part of one."""
_LIST_BY_LIST = frozenset({"sets.contains", "sets.intersects", "sets.equivalent"})


@dataclass(frozen=True, slots=True)
class Sizes:
    """The most elements of any collection, and characters of any text, among the values that an evaluation is given."""

    elements: int
    characters: int


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a value: at most so long; of a collection, what its elements are.

    ``length`` is the most elements it can have, where a text could be longer than that: nobody can run over a text.
    """

    size: int
    element: "Known | None" = None
    length: int | None = None

    @property
    def count(self) -> int:
        return self.size if self.length is None else self.length


LARGEST = Sizes(3 << 20, 3 << 20)
"""A request body is no larger than three megabytes: neither is anything in it."""


def most(node: Node, sizes: Sizes = LARGEST) -> int:
    """The most that evaluating ``node`` can cost."""
    return _Estimate(sizes).of(node, {})[0]


def measure(value: Any) -> Sizes:
    """The sizes of a JSON value, all of what is in it included."""
    elements = characters = 0
    pending = [value]
    while pending:
        found = pending.pop()
        if isinstance(found, str | bytes):
            characters = max(characters, len(found))
        elif isinstance(found, Mapping):
            elements = max(elements, len(found))
            pending += found.values()
            pending += found.keys()
        elif isinstance(found, list | tuple):
            elements = max(elements, len(found))
            pending += found
    return Sizes(elements, characters)


class _Estimate:
    def __init__(self, sizes: Sizes) -> None:
        self._anything = Known(max(sizes.elements, sizes.characters, 1), None, max(sizes.elements, 1))

    def of(self, node: Node, scope: Mapping[str, Known]) -> tuple[int, Known]:
        match node:
            case Constant(value):
                return 0, Known(len(value) if isinstance(value, str | bytes) else 1)
            case Ident(name):
                return 1, scope.get(name, self._anything)
            case Select(operand):
                return _plus(1, self.of(operand, scope)[0]), self._anything
            case CreateList(elements):
                costs, known = self._all(elements, scope)
                return _plus(_MAKE, costs), Known(len(elements), _largest(known))
            case CreateMap(keys, values):
                key_cost, key_known = self._all(keys, scope)
                cost, known = self._all(values, scope)
                return _plus(3 * _MAKE, key_cost, cost), Known(len(values), _largest([*key_known, *known]))
            case Comprehension():
                return self._loop(node, scope)
            case Call():
                return self._call(node, scope)

    def _all(self, nodes: tuple[Node, ...], scope: Mapping[str, Known]) -> tuple[int, list[Known]]:
        found = [self.of(each, scope) for each in nodes]
        return _plus(*(cost for cost, _ in found)), [known for _, known in found]

    def _loop(self, node: Comprehension, scope: Mapping[str, Known]) -> tuple[int, Known]:
        over_cost, over = self.of(node.over, scope)
        start_cost, start = self.of(node.start, scope)
        if isinstance(node.over, CreateList) and not node.over.elements:  # cel.bind: no loop, a name for a value
            cost, result = self.of(node.result, {**scope, node.accumulator: start})
            return _plus(over_cost, start_cost, cost), result
        element = over.element or self._anything
        gathered = Known(_capped(start.size + over.size), start.element, _capped(start.count + over.count))
        inside = {**scope, **dict.fromkeys(node.variables, element), node.accumulator: gathered}
        step_cost, stepped = self.of(node.step, inside)
        body = _plus(self.of(node.condition, inside)[0], step_cost)
        gathered = Known(gathered.size, stepped.element, gathered.length)
        cost, result = self.of(node.result, {**inside, node.accumulator: gathered})
        return _plus(over_cost, start_cost, _times(over.count, body), cost), result

    def _call(self, node: Call, scope: Mapping[str, Known]) -> tuple[int, Known]:
        nodes = (*((node.target,) if node.target is not None else ()), *node.args)
        cost, known = self._all(nodes, scope)
        own = 1
        if node.function in _ON_TEXT:
            own = _plus(own, sum(each.size for each in known) // 10)
        if node.function in _COMPARED:  # the shorter one decides
            own = _plus(own, min(each.size for each in known))
        if node.function in _OVER_LISTS:
            own = _plus(own, max(each.size for each in known))
        if node.function in _LIST_BY_LIST:
            own = _plus(own, _times(*(max(each.size, 1) for each in known)))
        return _plus(cost, own), _result(node.function, known, self._anything)


def _result(function: str, known: list[Known], anything: Known) -> Known:
    sizes = [each.size for each in known]
    if function in ("_+_", "format"):
        elements = _largest([each.element for each in known if each.element is not None])
        return Known(_plus(*sizes), elements, _plus(*(each.count for each in known)))
    if function == "_?_:_":
        return _largest(known[1:]) or anything
    if function in ("_[_]", "_[?_]", "optional_indexing"):
        return known[0].element or anything
    if function == "replace":
        return Known(_times(max(sizes[0], 1) + 1, max(sizes[-1], 1)))
    if function == "join":
        element = known[0].element or anything
        return Known(_times(max(sizes[0], 1), element.size + (sizes[1] if len(sizes) > 1 else 0)))
    if function in ("split", "findAll"):
        return Known(sizes[0] + 1, Known(sizes[0]))
    if function.startswith(("_", "!", "@")) and function not in ("_?._", "_||_", "_&&_"):
        return Known(1)
    if not known:
        return anything
    length = _plus(*(each.count for each in known)) if function in _SAME_LIST else None
    return Known(_plus(*sizes), known[0].element, length)


def _largest(known: "list[Known]") -> Known | None:
    if not known:
        return None
    elements = [each.element for each in known if each.element is not None]
    return Known(max(each.size for each in known), _largest(elements), max(each.count for each in known))


def _capped(number: int) -> int:
    return min(number, ENDLESS)


def _plus(*numbers: int) -> int:
    return _capped(sum(numbers))


def _times(*numbers: int) -> int:
    result = 1
    for number in numbers:
        result = _capped(result * number)
    return result
