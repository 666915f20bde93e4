"""The expressions of policies and webhooks, compiled when they are written: what is wrong with one is said at its field.

The compiler (20 MB) is loaded with the first expression.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from apimachinery import fieldpath
from apimachinery.fieldpath import FieldError

if TYPE_CHECKING:
    from controlplane.apiserver.admission.policy.expressions import Compiler

BOOL, STRING, NULL = "bool", "string", "null_type"


class Expressions:
    """Of one policy; ``params`` says whether it has any. Checks give an Invalid value with the compiler's words, or nothing."""

    def __init__(self, *, params: bool = False) -> None:
        self._params = params
        self._made: Compiler | None = None

    def _compiler(self) -> "Compiler":
        if self._made is None:
            from controlplane.apiserver.admission.policy.expressions import Compiler

            self._made = Compiler(params=self._params)
        return self._made

    def variable(self, name: str, expression: str, path: str) -> list[FieldError]:
        """Declares it for those that follow."""
        problem = self._compiler().variable(name, expression).problem
        return [fieldpath.invalid(path, expression, problem)] if problem else []

    def check(self, expression: str, path: str, *results: str, authorizer: bool = True) -> list[FieldError]:
        problem = self._compiler().stored(expression, *results, authorizer=authorizer).problem
        return [fieldpath.invalid(path, expression, problem)] if problem else []

    def mutation(self, expression: str, patch_type: str, path: str) -> list[FieldError]:
        from apimachinery.cel.environment import CompileError
        from controlplane.apiserver.admission.policy.mutations import compile_mutation

        try:
            compile_mutation(self._compiler(), expression, patch_type)
        except CompileError as error:
            return [fieldpath.invalid(path, expression, str(error))]
        return []


def same_conditions(one: Iterable[Mapping[str, Any]] | None, other: Iterable[Mapping[str, Any]] | None) -> bool:
    """Whether match conditions are what they were: such are not judged again."""
    return list(one or ()) == list(other or ())
