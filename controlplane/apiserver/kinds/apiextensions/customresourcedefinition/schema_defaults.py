"""Defaults that a schema gives: valid against it, and without fields it does not know (``schema/defaulting/validation.go``)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from apimachinery import fieldpath
from apimachinery.fieldpath import FieldError, Path
from apimachinery.schema.check import Findings
from controlplane.apiserver.crd.structural import go, objectmeta, pruning, values
from controlplane.apiserver.crd.structural.node import META_FIELDS, Node, UnsupportedSchemaError, read
from controlplane.apiserver.crd.structural.rules import evaluation, programs

Object = dict[str, Any]
Around = Callable[[Any], Object]
"""From a value inside type or metadata to the resource that has it."""


@dataclass(frozen=True, slots=True)
class _Place:
    """``root`` is the resource that the schema is in, ``inside_meta`` whether it is of its type or metadata."""

    path: Path
    root: Node
    around: Around
    inside_meta: bool = False


def problems(root: Node, path: str, *, pruned: bool) -> list[FieldError]:
    """``pruned``: a default may not have fields that its schema does not know."""
    place = _Place(Path(path), root, _resource)
    return [error for node, at in _with_defaults(root, place, resource=True) for error in _check(node, at, pruned=pruned)]


def are_pruned(schema: Object) -> bool:
    try:
        root = read(schema)
    except UnsupportedSchemaError:
        return True
    place = _Place(Path(), root, _resource)
    return not any(_unknown(node) for node, at in _with_defaults(root, place, resource=True) if not at.inside_meta)


def _resource(value: Any) -> Object:
    return {"apiVersion": "validation/v1", "kind": "Validation", **value}


def _with_defaults(node: Node, place: _Place, *, resource: bool) -> Iterator[tuple[Node, _Place]]:
    """Every schema with a default, but none below ``additionalProperties``, where defaults are forbidden."""
    if resource:
        place = _Place(place.path, node, _resource)
    if node.default is not None:
        yield node, place
    if node.items is not None:
        around = place.around
        inner = _Place(place.path / "items", place.root, lambda value: around([value]), place.inside_meta)
        yield from _with_defaults(node.items, inner, resource=node.items.embedded)
    for name, schema in node.properties.items():
        inside = place.inside_meta or (resource and name in META_FIELDS)
        inner = _Place((place.path / "properties").key(name), place.root, _field(place.around, name), inside)
        yield from _with_defaults(schema, inner, resource=schema.embedded)


def _field(around: Around, name: str) -> Around:
    return lambda value: around({name: value})


def _copy(value: Any) -> Any:
    return orjson.loads(orjson.dumps(value))


def _unknown(node: Node) -> bool:
    return bool(pruning.prune(_copy(node.default), node, resource=node.embedded))


def _check(node: Node, place: _Place, *, pruned: bool) -> list[FieldError]:
    path, shown = str(place.path / "default"), go.ordered(node.default)
    found: list[FieldError] = []
    if place.inside_meta:
        obj = place.around(_copy(node.default))
        wrong = _wrong_meta(obj, place.root, "", resource=True)
        if wrong:
            return [fieldpath.invalid(path, shown, f"must result in valid metadata: {', '.join(wrong)}")]
    else:
        if pruned and _unknown(node):
            found.append(fieldpath.invalid(path, shown, "must not have unknown fields"))
        findings = Findings()
        obj = _copy(node.default)
        objectmeta.coerce(obj, node, path, findings, resource=node.embedded, lenient=False)
        if findings.type_errors:
            return [*found, fieldpath.invalid(path, shown, findings.type_errors[0])]
        if wrong_meta := objectmeta.problems(obj, node, path, resource=node.embedded):
            return found + wrong_meta
    found += [_below(path, error) for error in values.problems(node.default, node, "")]
    asked = programs.compiled(node, resource=node.embedded) if not found and not place.inside_meta else None
    return found if asked is None else [_below(path, error) for error in evaluation.evaluate(asked, node.default).errors]


def _wrong_meta(obj: Object, root: Node, path: str, *, resource: bool) -> list[str]:
    findings = Findings()
    objectmeta.coerce(obj, root, path, findings, resource=resource, lenient=False)
    return findings.type_errors[:1] or [str(error) for error in objectmeta.problems(obj, root, path, resource=resource)]


def _below(path: str, error: FieldError) -> FieldError:
    """Errors name fields of the default; what is said of no field is said of all of it."""
    where = path if error.field == values.NOWHERE else f"{path}.{error.field}"
    return FieldError(error.kind, where, error.bad_value, error.detail)
