"""Type and metadata of resources, the custom resource's own and those embedded in it (``pkg/apiserver/schema/objectmeta``).

Metadata is what every kind's metadata is: fields nobody knows go away, those of the wrong type are an error, or dropped where
what is read had been stored. Whatever the schema says of it comes on top.
"""

from typing import Any

from apimachinery import fieldpath, names, schema
from apimachinery.fieldpath import FieldError
from apimachinery.schema import check
from controlplane.apiserver.crd.structural.go import ordered
from controlplane.apiserver.crd.structural.node import Node
from controlplane.apiserver.registry import metadata

Object = dict[str, Any]

_ANY_NAME = "fakename"  # metadata without a name is no reason for an error


def coerce(value: Any, node: Node | None, path: str, findings: check.Findings, *, resource: bool, lenient: bool) -> None:
    """Bring type and metadata of ``value`` and of resources below it into their form, in place.

    ``resource``: ``value`` itself is one. ``lenient`` drops what has the wrong type instead of reporting it.
    """
    if type(value) is dict:
        if resource:
            _coerce_type(value, path, findings, lenient=lenient)
            coerce_metadata(value, path, findings, lenient=lenient, embedded=True)
        if node is not None and node.embeds:
            for key, inner in value.items():
                below = node.child(key)
                if below is not None:
                    place = _field(path, key) if key in node.properties else f"{path}[{key}]"
                    coerce(inner, below, place, findings, resource=below.embedded, lenient=lenient)
    elif type(value) is list and node is not None and node.items is not None and node.embeds:
        for position, inner in enumerate(value):
            coerce(inner, node.items, f"{path}[{position}]", findings, resource=node.items.embedded, lenient=lenient)


def _field(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _coerce_type(value: Object, path: str, findings: check.Findings, *, lenient: bool) -> None:
    for key in ("apiVersion", "kind"):
        if key in value and type(value[key]) is not str:
            if lenient:
                del value[key]
            else:
                findings.type_errors.append(str(fieldpath.invalid(_field(path, key), ordered(value[key]), "must be a string")))


def coerce_metadata(value: Object, path: str, findings: check.Findings, *, lenient: bool, embedded: bool = False) -> None:
    """``metadata`` of one resource. The errors of an embedded one say where it is."""
    held = value.get("metadata")
    if held is None:
        return
    struct = schema.load().meta("ObjectMeta")
    if check.fits(held, struct):
        return
    sent = ordered(held)
    found = check.normalize(held, struct)
    if found.type_errors and lenient and type(held) is dict:
        for key in list(held):
            if check.normalize({key: held[key]}, struct).type_errors:
                del held[key]
        found = check.normalize(held, struct)
    prefix = f"{path}.metadata." if path else "metadata."
    findings.unknown += [text.replace('"', f'"{prefix}', 1) for text in found.unknown]
    if embedded:
        place = _field(path, "metadata")
        findings.type_errors += [str(fieldpath.invalid(place, sent, text)) for text in found.type_errors[:1]]
    else:
        findings.type_errors += found.type_errors


def problems(value: Any, node: Node | None, path: str = "", *, resource: bool = False) -> list[FieldError]:
    """What is wrong with type and metadata of resources, once their types are right."""
    found: list[FieldError] = []
    if type(value) is dict:
        if resource:
            found += _resource_problems(value, path)
        if node is not None and node.embeds:
            for key, inner in value.items():
                below = node.child(key)
                if below is not None:
                    place = _field(path, key) if key in node.properties else f"{path}[{key}]"
                    found += problems(inner, below, place, resource=below.embedded)
    elif type(value) is list and node is not None and node.items is not None:
        for position, inner in enumerate(value):
            found += problems(inner, node.items, f"{path}[{position}]", resource=node.items.embedded)
    return found


def _resource_problems(value: Object, path: str) -> list[FieldError]:
    found = [fieldpath.required(_field(path, key)) for key in ("apiVersion", "kind") if not value.get(key)]
    version, kind = value.get("apiVersion"), value.get("kind")
    if type(version) is str and version.count("/") > 1:
        text = f"unexpected GroupVersion string: {version}"
        found.append(fieldpath.invalid(_field(path, "apiVersion"), version, text))
    if type(kind) is str and kind and (wrong := names.is_dns1035_label(kind.lower())):
        text = f"may have mixed case, but should otherwise match: {','.join(wrong)}"
        found.append(fieldpath.invalid(_field(path, "kind"), kind, text))
    held = value.get("metadata")
    if type(held) is dict:
        named = {"metadata": {**held, "name": held.get("name") or _ANY_NAME}}
        prefix = f"{path}." if path else ""
        found += [
            FieldError(error.kind, prefix + error.field, error.bad_value, error.detail)
            for error in metadata.validate(named, bool(held.get("namespace")), names.is_path_segment)
        ]
    return found
