"""How much a rule costs at most, by the costs of cel-go's checker and of Kubernetes' libraries (``library/cost.go``).

With the sizes that a schema allows it is the estimate by which definitions are judged; with those of a value it bounds what one
evaluation can cost, which the evaluator does not count.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from apimachinery.cel.ast import Call, Comprehension, Constant, CreateList, CreateMap, Ident, Node, Select

ENDLESS = 1 << 63
_TRAVERSAL, _PATTERN = 0.1, 0.25  # of a character that is looked at; of one of a pattern
_LIST, _MAP, _OBJECT = 10, 30, 40
_LOGICAL = frozenset({"_&&_", "_||_"})
_COMPARED = frozenset({"_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"})
_INDEXING = frozenset({"_[_]", "_[?_]"})
_FUNCTIONS_OF_TEXT = """
    lowerAscii upperAscii substring trim string bytes reverse charAt quote url isURL quantity isQuantity semver isSemver
    ip isIP cidr isCIDR ip.isCanonical containsIP containsCIDR format replace split indexOf lastIndexOf validate
"""
_READ = frozenset(_FUNCTIONS_OF_TEXT.split())
_DOUBLED = ("strings.quote", "base64.encode")
"""They can make twice the text of what they are given."""
_SHOWN = 32  # characters of a number, a time or a type, and of what a format puts around
_SUMMED = frozenset({"isSorted", "sum", "min", "max"})
_SEARCHED = frozenset({"matches", "find", "findAll"})
_PAIRED = frozenset({"sets.contains", "sets.intersects", "sets.equivalent"})


@dataclass(frozen=True, slots=True)
class Size:
    """The most elements (or bytes of ``text``) of a value, and what is known of its parts."""

    most: int
    element: "Size | None" = None
    fields: "Mapping[str, Size] | None" = None
    key: "Size | None" = None
    text: bool = False


UNKNOWN = Size(ENDLESS)
SCALAR = Size(1)


def of_value(value: Any) -> Size:
    """The size of what is there."""
    if isinstance(value, str):
        return Size(len(value.encode()), text=True)
    if isinstance(value, bytes):
        return Size(len(value), text=True)
    if isinstance(value, Mapping):
        fields = {name: of_value(inner) for name, inner in value.items()}
        longest = max((len(name) for name in value), default=0)
        return Size(len(value), largest(fields.values()), fields, Size(longest, text=True))
    if isinstance(value, list):
        return Size(len(value), largest(map(of_value, value)))
    return SCALAR


def largest(sizes: Iterable[Size]) -> Size | None:
    """A size that none of ``sizes`` exceeds."""
    held = list(sizes)
    if len(held) < 2:
        return held[0] if held else None
    names = {name for one in held for name in one.fields or ()}
    fields = {name: largest(one.fields[name] for one in held if one.fields and name in one.fields) or SCALAR for name in names}
    return Size(
        max(one.most for one in held),
        largest(one.element for one in held if one.element is not None),
        fields or None,
        largest(one.key for one in held if one.key is not None),
        any(one.text for one in held),
    )


def most(tree: Node, scope: Mapping[str, Size]) -> int:
    """The most that an expression can cost, given the sizes of its variables."""
    return _cost(tree, scope)[0]


def _cost(node: Node, scope: Mapping[str, Size]) -> tuple[int, Size]:
    match node:
        case Constant(value):
            return 0, Size(len(value), text=True) if isinstance(value, str | bytes) else SCALAR
        case Ident(name):
            return 1, scope.get(name, UNKNOWN)
        case Select(operand, name, test_only):
            cost, held = _cost(operand, scope)
            return (cost if test_only else _sum(cost, 1)), SCALAR if test_only else _field(held, name)
        case CreateList(elements):
            cost, sizes = _all(elements, scope)
            return _sum(_LIST, cost), Size(len(elements), largest(sizes))
        case CreateMap(keys, values, message):
            key_cost, key_sizes = _all(keys, scope)
            cost, sizes = _all(values, scope)
            own = _OBJECT if message else _MAP
            return _sum(own, key_cost, cost), Size(len(values), largest(sizes), key=largest(key_sizes))
        case Comprehension():
            return _loop(node, scope)
        case Call():
            return _call(node, scope)


def _field(held: Size, name: str) -> Size:
    if held.fields is not None and name in held.fields:
        return held.fields[name]
    return held.element or UNKNOWN


def _all(nodes: tuple[Node, ...], scope: Mapping[str, Size]) -> tuple[int, list[Size]]:
    found = [_cost(each, scope) for each in nodes]
    return _sum(*(cost for cost, _ in found)), [size for _, size in found]


def _loop(node: Comprehension, scope: Mapping[str, Size]) -> tuple[int, Size]:
    over_cost, over = _cost(node.over, scope)
    start_cost, start = _cost(node.start, scope)
    if isinstance(node.over, CreateList) and not node.over.elements:  # cel.bind gives a value a name
        cost, result = _cost(node.result, {**scope, node.accumulator: start})
        return _sum(over_cost, start_cost, cost), result
    names = dict(zip(node.variables, _iterated(over, len(node.variables)), strict=False))
    gathered = Size(_sum(start.most, over.most), start.element)
    inside = {**scope, **names, node.accumulator: gathered}
    step_cost, stepped = _cost(node.step, inside)
    turn = _sum(_cost(node.condition, inside)[0], step_cost)
    after = Size(gathered.most, stepped.element)
    cost, result = _cost(node.result, {**inside, node.accumulator: after})
    return _sum(over_cost, start_cost, _product(over.most, turn), cost), result


def _iterated(over: Size, variables: int) -> tuple[Size, ...]:
    """A list gives its elements, a map its keys; with two variables, the index or key comes first."""
    element = over.element or UNKNOWN
    if variables > 1:
        return over.key or SCALAR, element
    return (over.key or element,)


def _call(node: Call, scope: Mapping[str, Size]) -> tuple[int, Size]:
    nodes = (*((node.target,) if node.target is not None else ()), *node.args)
    found = [_cost(each, scope) for each in nodes]
    costs, sizes = [cost for cost, _ in found], [size for _, size in found]
    if node.function in _LOGICAL:
        return _sum(*costs), SCALAR
    if node.function == "_?_:_":
        return _sum(costs[0], max(costs[1:])), largest(sizes[1:]) or UNKNOWN
    if node.function == "_?._" and isinstance(node.args[-1], Constant):
        return _sum(1, *costs), _field(sizes[0], str(node.args[-1].value))
    return _sum(_own(node.function, sizes), *costs), _result(node.function, sizes)


def _own(function: str, sizes: list[Size]) -> int:
    """What a call costs beside its arguments."""
    first = sizes[0] if sizes else SCALAR
    second = sizes[1] if len(sizes) > 1 else SCALAR
    if function in _COMPARED:
        return max(1, _part(min(first.most, second.most), _TRAVERSAL))
    if function == "_+_" and first.text and second.text:
        return max(1, _part(_sum(first.most, second.most), _TRAVERSAL))
    if function == "@in":
        return max(1, second.most) if second.key is None and second.fields is None else 1
    if function in _SEARCHED:
        return _product(_part(_sum(first.most, 1), _TRAVERSAL), max(1, _part(second.most, _PATTERN)))
    if function == "contains":
        return _product(max(1, _part(first.most, _TRAVERSAL)), max(1, _part(second.most, _TRAVERSAL)))
    if function in ("startsWith", "endsWith"):
        return max(1, _part(second.most, _TRAVERSAL))
    if function in _PAIRED:
        return _sum(1, _product(first.most, second.most))
    if function in _SUMMED or (function in ("indexOf", "lastIndexOf", "join") and not first.text):
        each = first.element or SCALAR
        return _sum(1, _product(first.most, max(1, _part(each.most, _TRAVERSAL) if each.text else 1)))
    if (function in _READ or function in _DOUBLED) and first.text:
        return max(1, _part(first.most, _TRAVERSAL))
    return 1


def _result(function: str, sizes: list[Size]) -> Size:
    made = _RESULTS.get(function)
    if made is not None:
        return made(sizes)
    if function in _INDEXING or function == "orValue" or function == "value":
        return (sizes[0].element if function in _INDEXING else sizes[0]) or UNKNOWN
    if function in _READ and sizes and sizes[0].text:
        return sizes[0]
    if function.startswith(("optional.", "opt")) and sizes:
        return sizes[0]
    return SCALAR


def _joined(sizes: list[Size]) -> Size:
    each = (sizes[0].element or UNKNOWN).most
    return Size(_product(sizes[0].most, _sum(each, sizes[1].most if len(sizes) > 1 else 0)), text=True)


def _formatted(sizes: list[Size]) -> Size:
    each = sizes[1].element or SCALAR
    return Size(_sum(sizes[0].most, _product(sizes[1].most, _sum(each.most, _SHOWN))), text=True)


def _doubled(sizes: list[Size]) -> Size:
    return Size(_sum(2, _product(2, sizes[0].most)), text=True)


_RESULTS: dict[str, Callable[[list[Size]], Size]] = {
    "_+_": lambda sizes: Size(
        _sum(*(one.most for one in sizes)),
        largest(one.element for one in sizes if one.element is not None),
        text=any(one.text for one in sizes),
    ),
    "join": _joined,
    "replace": lambda sizes: Size(_product(_sum(sizes[0].most, 1), max(1, sizes[2].most)), text=True),
    "split": lambda sizes: Size(_sum(sizes[0].most, 1), Size(sizes[0].most, text=True)),
    "find": lambda sizes: Size(sizes[0].most, text=True),
    "findAll": lambda sizes: Size(sizes[0].most, Size(sizes[0].most, text=True)),
    "format": _formatted,
    **dict.fromkeys(_DOUBLED, _doubled),
    "dyn": lambda sizes: sizes[0],
}


def _part(size: int, factor: float) -> int:
    return min(ENDLESS, math.ceil(size * factor))


def _sum(*numbers: int) -> int:
    return min(ENDLESS, sum(numbers))


def _product(one: int, other: int) -> int:
    return min(ENDLESS, one * other)
