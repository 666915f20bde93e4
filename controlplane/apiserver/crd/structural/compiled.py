"""One version's schema, compiled: what the registry and the endpoints of a custom resource ask."""

from collections.abc import Iterable
from functools import cached_property
from typing import Any

from apimachinery import fieldpath
from apimachinery.fieldpath import FieldError
from apimachinery.schema.check import Findings
from apimachinery.schema.types import StructSchema
from controlplane.apiserver.crd.structural import apply, defaulting, fast, listtype, objectmeta, pruning, structuralness, values
from controlplane.apiserver.crd.structural.correlation import ABSENT
from controlplane.apiserver.crd.structural.node import Node, UnsupportedSchemaError, read
from controlplane.apiserver.crd.structural.rules import evaluation, programs

Object = dict[str, Any]

_BLOCKING = frozenset(
    {"FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid"}
)
_NOT_ASKED = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"
)


def compile_structural(schema: Object, *, preserves: bool = False) -> "Structural":
    """Raises UnsupportedSchemaError for a schema that is not structural.

    With ``preserves`` nothing is pruned, and a schema that is not structural says nothing: so it is of definitions that were
    made as v1beta1, which alone have such.
    """
    try:
        node = read(schema)
        if found := structuralness.problems(node, "openAPIV3Schema"):
            raise UnsupportedSchemaError(str(found[0]))
    except UnsupportedSchemaError:
        if not preserves:
            raise
        node = Node(type="object", preserve=True)
    return Structural(node, preserves=preserves)


class Structural:
    """The schema of a kind in one version. Parts are compiled at their first use; safe to share, it holds no request's state."""

    def __init__(self, node: Node, *, preserves: bool = False) -> None:
        """``preserves``: unknown fields stay, wherever they are."""
        self.node, self._preserves = node, preserves

    @cached_property
    def _is_valid(self) -> fast.Checker:
        return fast.compiled(self.node)

    @cached_property
    def _fill_in(self) -> defaulting.Defaulter | None:
        return defaulting.compiled(self.node)

    def normalize(self, obj: Object, *, lenient: bool = False) -> Findings:
        """Bring ``obj`` into its form, in place: unknown fields and void nulls go, metadata is as every kind's.

        ``unknown`` names what went, as strict decoding does; ``type_errors`` (of metadata and type alone) make the object
        unusable. ``lenient``, for what had been stored, drops metadata of the wrong type instead.
        """
        findings = Findings()
        objectmeta.coerce_metadata(obj, "", findings, lenient=lenient)
        if not self._preserves:
            findings.unknown += [f'unknown field "{path}"' for path in pruning.prune(obj, self.node, resource=True)]
        if self.node.embeds:
            objectmeta.coerce(obj, self.node, "", findings, resource=False, lenient=lenient)
        return findings

    def prune(self, obj: Object) -> list[str]:
        """``normalize`` for what had been stored; the fields that went, in the words of strict decoding."""
        return self.normalize(obj, lenient=True).unknown

    def default(self, obj: Object) -> None:
        if self._fill_in is not None:
            self._fill_in(obj)

    def validate(self, obj: Object, old: Object | None = None) -> list[FieldError]:
        """Everything wrong with a normal, defaulted object beyond its metadata, rules aside.

        ``old`` is what it replaces: what stayed as it was is tolerated (KEP-4008), and lists that had elements twice may.
        """
        found: list[FieldError] = []
        if not self._is_valid(obj):
            found += values.problems(obj, self.node, "", ABSENT if old is None else old)
            twice = listtype.problems(obj, self.node)
            if twice and (old is None or not listtype.problems(old, self.node)):
                found += twice
        if self.node.embeds:
            found += objectmeta.problems(obj, self.node)
        return found

    @cached_property
    def _rules(self) -> programs.Rules | None:
        return programs.compiled(self.node, resource=True)

    def rules(self, obj: Object, old: Object | None = None, found: Iterable[FieldError] = ()) -> evaluation.Findings:
        """What ``x-kubernetes-validations`` say of an object of which :meth:`validate` has said ``found``.

        They are not asked of values that have the wrong form; an error tells so.
        """
        if self._rules is None:
            return evaluation.Findings()
        if any(error.kind in _BLOCKING for error in found):
            return evaluation.Findings([fieldpath.invalid(values.NOWHERE, "null", _NOT_ASKED)])
        return evaluation.evaluate(self._rules, obj, ABSENT if old is None else old)

    @cached_property
    def apply_schema(self) -> StructSchema:
        """The schema as patches and server-side apply see it."""
        return apply.struct_of(self.node)
