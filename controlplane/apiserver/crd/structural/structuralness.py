"""Is a schema structural? Each field that validation speaks of is declared outside of it, with its type and its default.

Rules and texts are those of ``k8s.io/apiextensions-apiserver/pkg/apiserver/schema`` (``validation.go``, ``complete.go``). Asked
when a CustomResourceDefinition is written; a schema that is stored has passed.
"""

from enum import Enum

from apimachinery import fieldpath
from apimachinery.cel.library import regex
from apimachinery.fieldpath import FieldError, Path
from controlplane.apiserver.crd.structural.node import Node

_MUST_BE_OBJECT = "must be object if x-kubernetes-embedded-resource is true"
_NOT_WITH_INT_OR_STRING = "must be false if x-kubernetes-int-or-string is true"
_NOT_OF_METADATA = frozenset({"type", "properties", "default", "externalDocs", "example"})  # is judged elsewhere, or nowhere
_ONLY_NAMES = "must not specify anything other than name and generateName, but metadata is implicitly specified"
_PRESERVED_OR_LISTED = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"


class _Level(Enum):
    ROOT = "at the root"
    ITEM = "for specified array items"
    FIELD = "for specified object fields"


def problems(root: Node, path: str) -> list[FieldError]:
    """Everything that keeps the schema from being structural, sorted by its text. ``path`` is the schema's own."""
    found = _invariants(root, _Level.ROOT, Path(path))
    found += _value_complete(root, root, Path(path), Path(path))
    return sorted(found, key=str)


# What holds for each node


def _invariants(node: Node, level: _Level, path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    if node.type == "array" and node.items is None:
        found.append(fieldpath.required(path / "items", "must be specified"))
    if node.items is not None:
        found += _invariants(node.items, _Level.ITEM, path / "items")
    for name, inner in node.properties.items():
        found += _invariants(inner, _Level.FIELD, (path / "properties").key(name))
    if node.additional_allowed is not None:
        if level is _Level.ROOT:
            found.append(fieldpath.forbidden(path / "additionalProperties", "must not be used at the root"))
        if node.additional is not None:
            found += _invariants(node.additional, _Level.FIELD, path / "additionalProperties")
    found += _extensions(node, path)
    first = bool(node.all_of) and _is_int_or_string(node.all_of[0])
    found += _values(node, path, skip_any_of=_is_int_or_string(node), skip_first=first)
    return found + _types(node, level, path) + _metadata(node, level, path)


def _extensions(node: Node, path: Path) -> list[FieldError]:
    pairs = (("x-kubernetes-preserve-unknown-fields", node.preserve), ("x-kubernetes-embedded-resource", node.embedded))
    return [fieldpath.invalid(path / name, True, _NOT_WITH_INT_OR_STRING) for name, said in pairs if said and node.int_or_string]


def _types(node: Node, level: _Level, path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    if node.embedded and node.type != "object":
        wrong = fieldpath.invalid(path / "type", node.type, _MUST_BE_OBJECT)
        found.append(wrong if node.type else fieldpath.required(path / "type", _MUST_BE_OBJECT))
    elif not node.type and not node.int_or_string and not node.preserve:
        found.append(fieldpath.required(path / "type", f"must not be empty {level.value}"))
    if node.embedded and node.additional_allowed is not None:
        text = "must not be used if x-kubernetes-embedded-resource is set"
        found.append(fieldpath.forbidden(path / "additionalProperties", text))
    if level is _Level.ROOT and node.type not in ("", "object"):
        found.append(fieldpath.invalid(path / "type", node.type, "must be object at the root"))
    if node.embedded and not node.preserve and not node.properties:
        found.append(fieldpath.required(path / "properties", _PRESERVED_OR_LISTED))
    return found


def _metadata(node: Node, level: _Level, path: Path) -> list[FieldError]:
    """Type and metadata of a resource have types of their own; of metadata only the names can be restricted."""
    found: list[FieldError] = []
    is_resource = level is _Level.ROOT or node.embedded
    if is_resource:
        for name, wanted in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
            inner = node.properties.get(name)
            if inner is not None and inner.type != wanted:
                here = (path / "properties").key(name) / "type"
                found.append(fieldpath.invalid(here, inner.type, f"must be {wanted}"))
    if level is _Level.ROOT and "metadata" in node.properties and not _restricts_names_only(node.properties["metadata"]):
        found.append(fieldpath.forbidden((path / "properties").key("metadata"), _ONLY_NAMES))
    return found


def _restricts_names_only(metadata: Node) -> bool:
    said = {key for key, value in metadata.source.items() if value not in (None, "", False, [], {})}
    return said <= _NOT_OF_METADATA and metadata.properties.keys() <= {"name", "generateName"}


# What holds for validation


def _is_int_or_string(node: Node) -> bool:
    """The one exception: ``anyOf`` of the types integer and string, in this order, says what the extension says."""
    return [one.source for one in node.any_of] == [{"type": "integer"}, {"type": "string"}]


def _values(node: Node, path: Path, *, skip_any_of: bool = False, skip_first: bool = False) -> list[FieldError]:
    found: list[FieldError] = []
    if not skip_any_of:
        found += [error for at, one in enumerate(node.any_of) for error in _nested(one, (path / "anyOf").index(at))]
    for position, one in enumerate(node.all_of):
        found += _nested(one, (path / "allOf").index(position), skip_any_of=skip_first and position == 0)
    found += [error for at, one in enumerate(node.one_of) for error in _nested(one, (path / "oneOf").index(at))]
    if node.not_ is not None:
        found += _nested(node.not_, path / "not")
    if node.pattern and (reason := pattern_problem(node.pattern)):
        text = f"must be a valid regular expression, but isn't: {reason}"
        found.append(fieldpath.invalid(path / "pattern", node.pattern, text))
    return found


def pattern_problem(pattern: str) -> str:
    """Why a pattern is none, in Go's words as far as they are the same; empty where it is one."""
    try:
        regex.compiled(pattern)
    except ValueError as error:
        return f"error parsing regexp: {str(error).removeprefix('Illegal regex: ')}"
    return ""


def _nested(node: Node, path: Path, *, skip_any_of: bool = False) -> list[FieldError]:
    found = _values(node, path, skip_any_of=skip_any_of)
    if node.items is not None:
        found += _nested(node.items, path / "items")
    for name, inner in node.properties.items():
        found += _nested(inner, (path / "properties").key(name))
    silent = (
        ("type", bool(node.type), "empty"),
        ("additionalProperties", node.additional_allowed is not None, "undefined"),
        ("default", node.default is not None, "undefined"),
        ("title", bool(node.title), "empty"),
        ("description", bool(node.description), "empty"),
        ("nullable", node.nullable, "false"),
        ("externalDocs", node.external_docs, "undefined"),
        ("x-kubernetes-preserve-unknown-fields", node.preserve, "false"),
        ("x-kubernetes-embedded-resource", node.embedded, "false"),
        ("x-kubernetes-int-or-string", node.int_or_string, "false"),
        ("x-kubernetes-list-map-keys", bool(node.list_map_keys), "empty"),
        ("x-kubernetes-list-type", bool(node.list_type), "undefined"),
        ("x-kubernetes-map-type", bool(node.map_type), "undefined"),
        ("x-kubernetes-validations", bool(node.rules), "empty"),
    )
    found += [fieldpath.forbidden(path / name, f"must be {wanted} to be structural") for name, said, wanted in silent if said]
    if "metadata" in node.properties:
        text = "must not be specified in a nested context"
        found.append(fieldpath.forbidden((path / "properties").key("metadata"), text))
    return found


# What validation speaks of is declared


def _value_complete(value: Node, node: Node | None, node_path: Path, path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    if value.not_ is not None:
        found += _complete(value.not_, node, node_path, path / "not")
    for name, nested in (("allOf", value.all_of), ("anyOf", value.any_of), ("oneOf", value.one_of)):
        for position, one in enumerate(nested):
            found += _complete(one, node, node_path, (path / name).index(position))
    return found


def _complete(value: Node, node: Node | None, node_path: Path, path: Path) -> list[FieldError]:
    if node is None:
        return [fieldpath.required(node_path, f"because it is defined in {path}")]
    found = _value_complete(value, node, node_path, path)
    if value.items is not None:
        found += _complete(value.items, node.items, node_path / "items", path / "items")
    for name, inner in value.properties.items():
        here, there = (node_path / "properties").key(name), (path / "properties").key(name)
        found += _complete(inner, node.properties.get(name), here, there)
    return found
