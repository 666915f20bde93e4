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
    strings.quote base64.encode jsonpatch.escapeKey
    quantity isQuantity semver isSemver url isURL ip isIP ip.isCanonical cidr isCIDR containsIP containsCIDR
"""
_ON_TEXT = frozenset({*_MEMBERS_ON_TEXT.split(), "_+_"})
_COMPARED = frozenset({"_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"})
_OVER_LISTS = frozenset({"isSorted", "sum", "min", "max", "indexOf", "lastIndexOf", "@in", "cel.@mapInsert"})
_DOUBLED = frozenset({"strings.quote", "base64.encode", "jsonpatch.escapeKey"})
"""They can make twice the text of what they are given."""
_SHOWN = 32  # characters of a number, a time or a type, and of what a format puts around
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

    @property
    def weight(self) -> int:
        """The most characters of a value and of all that is known to be in it: one element may stand there many times."""
        return self.size if self.element is None else max(self.size, _times(self.count, _plus(1, self.element.weight)))

    @property
    def nodes(self) -> int:
        """The most values that it is made of."""
        return 1 if self.element is None else _plus(1, _times(self.count, self.element.nodes))


_NOTHING = Known(0, None, 0)

LARGEST = Sizes(3 << 20, 3 << 20)
"""A request body is no larger than three megabytes: neither is anything in it."""


def most(node: Node, sizes: Sizes = LARGEST) -> int:
    """The most that evaluating ``node`` can cost."""
    cost, result = _Estimate(sizes).of(node, {})
    return _plus(cost, result.nodes) if result.element is not None else cost


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
                cost, held = self.of(operand, scope)
                return _plus(1, cost), held.element or self._anything
            case CreateList(elements):
                costs, known = self._all(elements, scope)
                return _plus(_MAKE, costs), Known(len(elements), self._largest(known))
            case CreateMap(keys, values):
                key_cost, key_known = self._all(keys, scope)
                cost, known = self._all(values, scope)
                return _plus(3 * _MAKE, key_cost, cost), Known(len(values), self._largest([*key_known, *known]))
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
        begun = start.element if start.count else _NOTHING
        gathered = Known(_capped(start.size + over.size), begun, _capped(start.count + over.count))
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
            own = _plus(own, min(each.weight for each in known))
        if node.function in _OVER_LISTS:
            own = _plus(own, max(each.size for each in known), min(each.weight for each in known))
        if node.function in _LIST_BY_LIST:
            compared = min((each.element or self._anything).weight if each.element else 1 for each in known)
            own = _plus(own, _times(max(compared, 1), *(max(each.size, 1) for each in known)))
        return _plus(cost, own), self._result(node.function, known)

    def _result(self, function: str, known: list[Known]) -> Known:
        sizes = [each.size for each in known]
        if function == "_+_":
            return Known(_plus(*sizes), self._elements(known), _plus(*(each.count for each in known)))
        if function == "format":
            shown = (known[1].element or self._anything).weight
            return Known(_plus(sizes[0], _times(known[1].count, _plus(_SHOWN, shown))), None, 0)
        if function == "_?_:_":
            return self._largest(known[1:]) or self._anything
        if function in ("_[_]", "_[?_]", "_?._", "optional_indexing"):
            return known[0].element or self._anything
        if function == "replace":
            return Known(_times(max(sizes[0], 1) + 1, max(sizes[2], 1)))
        if function in _DOUBLED:
            return Known(_plus(2, *(2 * size for size in sizes)))
        if function == "join":
            element = known[0].element or self._anything
            return Known(_times(max(sizes[0], 1), element.size + (sizes[1] if len(sizes) > 1 else 0)))
        if function in ("split", "findAll"):
            return Known(sizes[0] + 1, Known(sizes[0]))
        if function.startswith(("_", "!", "@")) and function not in ("_||_", "_&&_"):
            return Known(1)
        if not known:
            return self._anything
        if function == "cel.@mapInsert":
            return Known(sizes[0], self._largest([known[0].element or _NOTHING, *known[1:]]), known[0].count)
        length = _plus(*(each.count for each in known)) if function in _SAME_LIST else None
        return Known(_plus(*sizes), self._elements(known), length)

    def _largest(self, known: list[Known]) -> Known | None:
        """None for none."""
        if not known:
            return None
        return Known(max(each.size for each in known), self._elements(known), max(each.count for each in known))

    def _elements(self, known: list[Known]) -> Known | None:
        """What the elements of all of them are; None where nothing is known of any."""
        if all(each.element is None for each in known):
            return None
        return self._largest([each.element or self._anything for each in known if each.count])


def _capped(number: int) -> int:
    return min(number, ENDLESS)


def _plus(*numbers: int) -> int:
    return _capped(sum(numbers))


def _times(*numbers: int) -> int:
    result = 1
    for number in numbers:
        result = _capped(result * number)
    return result
