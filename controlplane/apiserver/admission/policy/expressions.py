"""Expressions of admission, compiled once: of policies, and of webhooks' match conditions.

    compiler = Compiler(params=False)
    expression = compiler.compile("object.spec.replicas <= 5", BOOL)     # raises CompileError, in upstream's words
    ``evaluation`` evaluates it.

Two environments stand behind a compiler: one in which ``request``, ``namespaceObject`` and the policy's variables have types,
which says what is wrong with an expression, and one without, which evaluates it: what a request does not say is an absent key
there. Upstream: ``k8s.io/apiserver/pkg/admission/plugin/cel``.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from apimachinery.cel.admission import NAMESPACE, REQUEST
from apimachinery.cel.environment import ANY, AUTHORIZER, RESOURCE_CHECK, CompileError, Environment, Kind, Program, of_type, typed
from controlplane.apiserver.admission.policy import view

BOOL, STRING, NULL = "bool", "string", "null_type"
VARIABLES = "variables."
_WORD = re.compile(r"\b[A-Z_]+\b")


@dataclass(frozen=True, slots=True)
class Expression:
    """``problem`` is why it cannot be compiled: such a one is only met where it had been stored before."""

    text: str
    program: Program | None
    problem: str = ""


@lru_cache(maxsize=8)
def _typed(params: bool, authorizer: bool) -> Environment:
    return Environment(_declared(params, authorizer), pool=view.POOL)


@lru_cache(maxsize=1)
def _plain() -> Environment:
    return Environment(_untyped())


_VALUES = ("object", "oldObject", "request", "namespaceObject", "params")
_AUTHORIZER = {"authorizer": AUTHORIZER, "authorizer.requestResource": RESOURCE_CHECK}


def _declared(params: bool, authorizer: bool) -> dict[str, Kind]:
    return {
        "object": ANY,
        "oldObject": ANY,
        "request": typed(REQUEST),
        "namespaceObject": typed(NAMESPACE),
        **({"params": ANY} if params else {}),
        **(_AUTHORIZER if authorizer else {}),
    }


class Compiler:
    """Of one policy, or (without variables) of any. ``params`` says whether there is such a variable."""

    def __init__(self, *, params: bool = False) -> None:
        self._params = params
        self._variables: dict[str, Kind] = {}
        self._typed: dict[bool, Environment] = {}
        self._plain: Environment | None = None
        self._mutating: Environment | None = None

    def variable(self, name: str, expression: str) -> Expression:
        """Declares ``variables.<name>`` for what is compiled from now on. Raises nothing: see :class:`Expression`."""
        found = ANY
        try:
            made = self.compile(expression)
            found = of_type(self._check(expression, authorizer=True))
        except CompileError as error:
            made = Expression(expression, None, str(error))
        self._variables[VARIABLES + name] = found
        self._typed.clear()
        self._plain = self._mutating = None
        return made

    def compile(self, expression: str, *results: str, authorizer: bool = True) -> Expression:
        """``results`` are names of types, of which it must have one exactly; none allows any. Raises CompileError."""
        found = type_name(self._check(expression, authorizer=authorizer))
        if results and found not in results:
            wanted = results[0] if len(results) == 1 else f"one of [{' '.join(results)}]"
            raise CompileError(f"must evaluate to {wanted} but got {found}")
        return Expression(expression, self.plain(expression).compile(expression))

    def stored(self, expression: str, *results: str, authorizer: bool = True) -> Expression:
        """As :meth:`compile`, for one that is in force whether it compiles or not."""
        try:
            return self.compile(expression, *results, authorizer=authorizer)
        except CompileError as error:
            return Expression(expression, None, str(error))

    def declared(self, *, authorizer: bool = True) -> dict[str, Kind]:
        """The variables and their types, for whoever checks with types of its own."""
        return {**_declared(self._params, authorizer), **self._variables}

    def _check(self, expression: str, *, authorizer: bool) -> Any:
        """The expression's type."""
        environment = _typed(self._params, authorizer)
        if self._variables and "variables" in expression:
            if authorizer not in self._typed:
                self._typed[authorizer] = Environment(self.declared(authorizer=authorizer), pool=view.POOL)
            environment = self._typed[authorizer]
        return environment.compile(expression).type

    def plain(self, expression: str) -> Environment:
        """Where the expression is evaluated."""
        if not self._variables or "variables" not in expression:
            return _plain()
        if self._plain is None:
            self._plain = Environment(_untyped(*self._variables))
        return self._plain

    def mutating(self) -> Environment:
        """Where expressions that make changes are evaluated."""
        if self._mutating is None:
            self._mutating = Environment(_untyped(*self._variables), mutations=True)
        return self._mutating


def _untyped(*more: str) -> dict[str, Kind]:
    return {**dict.fromkeys((*_VALUES, *more), ANY), **_AUTHORIZER}


def type_name(found: Any) -> str:
    """A type in cel-go's words: ``list(string)``."""
    written = str(found.name()).replace("<", "(").replace(">", ")")
    lower = _WORD.sub(lambda match: match[0].lower(), written)
    return NULL if lower == "null" else lower
