"""Expressions compiled against declared variables and evaluated within bounds.

    environment = Environment({"claims": MAP, "user": USER_INFO})
    program = environment.compile("claims.sub.startsWith('a')", BOOL)      # raises CompileError
    program.evaluate({"claims": {...}, "user": {...}})                      # raises EvaluationError

Callers are authentication and authorization configurations, device selectors, admission policies and match conditions. An
environment costs some milliseconds to make and a program some hundred microseconds: both are kept. Evaluation takes some
microseconds, on the caller's thread; several over the same values share :meth:`Environment.inputs`, which convert them once.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import orjson

from apimachinery.cel import cost, engine, library, literals, rewrite, shapes, values
from apimachinery.cel.ast import Comprehension, CreateMap, Ident, Node, Select, children, read
from apimachinery.cel.library.declare import Overload

TOO_COSTLY = "operation cancelled: actual cost limit exceeded"
MAX_EXPRESSION = 100 * 1024  # characters, as a request body bounds what upstream parses
_NO_KEY = re.compile(r'^NOT_FOUND: Key not found in map : "?(.*?)"?$')
_NO_OVERLOAD = re.compile(r"^[A-Z_]+: No matching overloads found")
_NO_INDEX = re.compile(r"[Ii]ndex error: index=(-?\d+) size=\d+")
_BY_ZERO = re.compile(r"^(?:[A-Z_]+: )?(?:(divide)|modulus|modulo) by zero")
_NOT_SIMPLE = ("ERROR", "UNKNOWN")
_NAME = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_WORDS = frozenset({"true", "false", "null", "in"})
_EXTENSIONS = ({"name": "two-var-comprehensions"}, {"name": "sets"})
_CONFIGURATION = json.dumps({"extensions": _EXTENSIONS, "functions": library.DECLARATIONS})
_MUTATIONS = json.dumps({"extensions": _EXTENSIONS, "functions": library.MUTATION_DECLARATIONS})
_UNDECLARED = re.compile(
    r"ERROR: <input>:(\d+):(\d+): undeclared reference to '(\w+)((?:\.\w+)+)' \(in container ''\)\n \| (.*)\n \| (\.*)\^"
)
_NOT_IN_STRUCT = re.compile(r"(undefined field '[^']*') not found in struct '[^']*'")


class CompileError(ValueError):
    """The expression cannot be used; the text says where and why, as upstream's ``compilation failed``."""


class EvaluationError(ValueError):
    """The expression has no value for this input, or would cost too much to find it."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A type that variables and results can have. ``fields`` are those of an object: None allows any."""

    name: str
    type_name: engine.TypeName
    fields: "Mapping[str, Kind] | None" = field(default=None, compare=False)


ANY = Kind("any", "DYN")
BOOL = Kind("bool", "BOOL")
BYTES = Kind("bytes", "BYTES")
DOUBLE = Kind("double", "DOUBLE")
INT = Kind("int", "INT")
STRING = Kind("string", "STRING")
MAP = Kind("map", ("Map", "STRING", "DYN"))
STRINGS = Kind("list", ("List", "STRING"))
LISTS = Kind("map", ("Map", "STRING", ("List", "STRING")))
"""A map of lists of text, such as ``extra``."""
QUANTITY = Kind("kubernetes.Quantity", values.QUANTITY)
SEMVER = Kind("kubernetes.Semver", values.SEMVER)
AUTHORIZER = Kind(values.AUTHORIZER, values.AUTHORIZER)
RESOURCE_CHECK = Kind(values.RESOURCE_CHECK, values.RESOURCE_CHECK)
"""Their values are made by ``library.quantity.make`` and ``library.semver.make``, ``library.authz``."""


def typed(shape: shapes.Shape) -> Kind:
    """A variable with an object type of the environment's own pool."""
    name = shapes.type_name(shape)
    return Kind(name, name)


def of_type(found: Any) -> Kind:
    """A variable that has the type of a program's result; one of objects may be anything."""
    return ANY if found.is_message() else Kind(str(found.name()), found)


def structure(name: str, fields: Mapping[str, Kind]) -> Kind:
    """An object of which an expression may name these fields and no others. Values are maps; absent keys are absent fields."""
    return Kind(name, "DYN", fields)


class Environment:
    """``pool`` has the types of an environment that only checks (see ``shapes``); ``mutations`` adds what only they may call."""

    def __init__(self, variables: Mapping[str, Kind], *, pool: Any = None, mutations: bool = False) -> None:
        self._variables = dict(variables)
        cel = engine.cel()
        self._env = cel.NewEnv(
            descriptor_pool=values.POOL if pool is None else pool,
            config=cel.NewEnvConfigFromYaml(_MUTATIONS if mutations else _CONFIGURATION),
            variables={name: engine.type_of(kind.type_name) for name, kind in variables.items()},
            extensions=[*engine.extensions(), cel.CelExtension("kubernetes", _extended(library.BESIDE_OTHERS))],
            function_impls=library.MUTATION_IMPLEMENTATIONS if mutations else library.IMPLEMENTATIONS,
        )

    def inputs(self, given: Mapping[str, Any]) -> "Inputs":
        return Inputs(self._env, given)

    def compile(self, expression: str, *results: Kind) -> "Program":
        """Raises CompileError for what cannot be parsed, names unknown things, or can never be one of ``results``."""
        if len(expression) > MAX_EXPRESSION:
            raise CompileError(f"expression is longer than {MAX_EXPRESSION} characters")
        try:
            compiled = self._env.compile(expression)
        except RuntimeError as error:
            raise CompileError(f"compilation failed: {_UNDECLARED.sub(self._undeclared, _plain(str(error)))}") from None
        written = compiled.serialize()
        tree = read(written)
        _check_words(tree)
        if problem := literals.problem(tree):
            raise CompileError(f"compilation failed: {problem}")
        _check_fields(tree, self._variables)
        found = compiled.return_type()
        if results and found != engine.type_of("DYN") and not any(_is(found, wanted) for wanted in results):
            wanted = " or ".join(dict.fromkeys(each.name for each in results))
            raise CompileError(f"must evaluate to {wanted}")
        replaced = library.maps.renamed(written)
        if library.formats.concerns(written):
            replaced = rewrite.rewritten(replaced or written, library.formats.change)
        evaluated = compiled if replaced is None else self._env.deserialize(replaced)
        return Program(expression, evaluated, tree, found)

    def _undeclared(self, match: re.Match[str]) -> str:
        """cel-go names the first name that is unknown, and points to it; of ``variables.x`` that is a field."""
        line, column, first, rest, text, _ = match.groups()
        start = int(column) - len(first) - rest.rindex(".")
        what = f"undeclared reference to '{first}' (in container '')"
        if any(name.startswith(f"{first}.") for name in self._variables):
            start += len(first)
            what = f"undefined field '{rest.split('.')[1]}'"
        return f"ERROR: <input>:{line}:{start}: {what}\n | {text}\n | {'.' * (start - 1)}^"

    def parse(self, expression: str, change: rewrite.Change) -> "Program":
        """An expression whose types another environment has checked, every node changed. Raises CompileError."""
        try:
            written = self._env.compile(expression, disable_check=True).serialize()
        except RuntimeError as error:
            raise CompileError(f"compilation failed: {_plain(str(error))}") from None

        def each(node: Any) -> None:
            rewrite.as_name(node, self._variables)
            library.formats.change(node)
            change(node)

        changed = rewrite.rewritten(written, each)
        return Program(expression, self._env.deserialize(changed), read(changed), engine.type_of("DYN"))


def _extended(overloads: Iterable[Overload]) -> list[Any]:
    """Overloads that are declared with what they call."""
    cel = engine.cel()
    functions: dict[str, list[Any]] = {}
    for each in overloads:
        made = cel.Overload(
            each.id,
            return_type=cel.Type(each.result.signature),
            parameters=[cel.Type(parameter.signature) for parameter in each.parameters],
            is_member=each.member,
            impl=each.implementation,
        )
        functions.setdefault(each.function, []).append(made)
    return [cel.FunctionDecl(name, made) for name, made in functions.items()]


def _is(found: Any, wanted: Kind) -> bool:
    """A list of anything may turn out to be a list of text."""
    name, wish = found.name(), engine.type_of(wanted.type_name).name()
    return bool(name == wish or wish == "DYN" or (name.partition("<")[0] == wish.partition("<")[0] and "DYN" in name))


class Inputs:
    """Values of variables for several expressions: converted once, measured once."""

    def __init__(self, env: Any, given: Mapping[str, Any]) -> None:
        self.given = given
        self.activation = env.Activation(data=given)

    @cached_property
    def sizes(self) -> cost.Sizes:
        return cost.measure(list(self.given.values()))

    @cached_property
    def outline(self) -> cost.Sizes:
        """At least :attr:`sizes`, and quicker to have."""
        length = len(orjson.dumps(self.given, default=lambda value: None))
        return cost.Sizes(length, length)


class Program:
    """One compiled expression. ``variables`` are the names of the environment's that it mentions, ``returns`` is the name of
    its type (``dyn`` when only an evaluation can tell)."""

    def __init__(self, expression: str, compiled: Any, tree: Node, found: Any) -> None:
        self.expression = expression
        self.tree = tree
        self.variables = frozenset(_names(tree))
        self._compiled = compiled
        self.type = found
        self.returns = str(found.name()).lower()
        self.most = cost.most(tree)
        self._bounds: dict[cost.Sizes, int] = {}

    def bound(self, inputs: Inputs) -> int:
        """The most that an evaluation can cost; exact enough where it is more than one may."""
        if self.most <= cost.PER_CALL:
            return self.most
        bound = self._bound(inputs.outline)
        return bound if bound <= cost.PER_CALL else self._bound(inputs.sizes)

    def _bound(self, sizes: cost.Sizes) -> int:
        """Remembered for sizes up to the next power of two; where those would be too much, for these very sizes."""
        rounded = cost.Sizes(1 << sizes.elements.bit_length(), 1 << sizes.characters.bit_length())
        bound = self._bounds.get(rounded)
        if bound is None:
            bound = self._bounds[rounded] = cost.most(self.tree, rounded)
        return bound if bound <= cost.PER_CALL else cost.most(self.tree, sizes)

    def evaluate(self, given: Mapping[str, Any] | Inputs, *, bounded: bool = False) -> Any:
        """The value, in JSON's types (durations and timestamps as datetime's). Raises EvaluationError.

        ``bounded``: the caller knows better what these values can cost, and that it is not too much.
        """
        try:
            if isinstance(given, Inputs):
                if not bounded and self.bound(given) > cost.PER_CALL:
                    raise EvaluationError(TOO_COSTLY)
                found = self._compiled.eval(given.activation)
            else:
                if not bounded and self.most > cost.PER_CALL:
                    sizes = cost.measure([given[name] for name in self.variables if name in given])
                    if self._bound(sizes) > cost.PER_CALL:
                        raise EvaluationError(TOO_COSTLY)
                found = self._compiled.eval(data=given)
            kind = found.type().name()
            value = found.plain_value()
        except (RuntimeError, TypeError) as error:
            raise EvaluationError(_plain(str(error))) from None
        if kind in _NOT_SIMPLE:
            raise EvaluationError(_reason(str(value)))
        return value


def _plain(text: str) -> str:
    """The library's text without the status it is wrapped in."""
    plain = text.removeprefix("INVALID_ARGUMENT: ").removesuffix("[INVALID_ARGUMENT]").strip()
    return _NOT_IN_STRUCT.sub(r"\1", plain)


def _reason(text: str) -> str:
    """In the words of cel-go, which upstream uses."""
    if match := _NO_KEY.match(text):
        return f"no such key: {match[1]}"
    if _NO_OVERLOAD.match(text):
        return "no such overload"
    if match := _NO_INDEX.search(text):
        return f"index out of bounds: {match[1]}"
    if match := _BY_ZERO.match(text):
        return f"{'division' if match[1] else 'modulus'} by zero"
    return re.sub(r"^[A-Z_]+: ", "", text)


def _names(node: Node, bound: frozenset[str] = frozenset()) -> set[str]:
    if isinstance(node, Ident):
        return set() if node.name in bound else {node.name}
    if isinstance(node, Comprehension):
        bound |= {*node.variables, node.accumulator}
    return {name for child in children(node) for name in _names(child, bound)}


def _check_words(node: Node) -> None:
    """Raises CompileError for names in backticks, which Kubernetes has not switched on: they would reach inside its types."""
    if isinstance(node, Select) and (node.field in _WORDS or not _NAME.fullmatch(node.field)):
        raise CompileError("compilation failed: Syntax error: token recognition error at: '`'")
    if isinstance(node, CreateMap) and node.message in values.NAMES:
        raise CompileError(f"compilation failed: undeclared reference to '{node.message}' (in container '')")
    for child in children(node):
        _check_words(child)


def _check_fields(node: Node, variables: Mapping[str, Kind]) -> None:
    """Raises CompileError for a field that the variable it is asked of does not have."""
    if isinstance(node, Select):
        _kind_of(node, variables)
    inner = variables
    if isinstance(node, Comprehension):
        hidden = {*node.variables, node.accumulator}
        inner = {name: kind for name, kind in variables.items() if name not in hidden}
    for child in children(node):
        _check_fields(child, inner)


def _kind_of(node: Node, variables: Mapping[str, Kind]) -> Kind | None:
    if isinstance(node, Ident):
        return variables.get(node.name)
    if not isinstance(node, Select):
        return None
    kind = _kind_of(node.operand, variables)
    if kind is None or kind.fields is None:
        return None
    if node.field not in kind.fields:
        raise CompileError(f"compilation failed: undefined field '{node.field}'")
    return kind.fields[node.field]
