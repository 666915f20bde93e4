"""The form in which upstream judges a definition: what all versions have in common stands at the top.

That is the internal version of ``apiextensions.k8s.io``; the paths of errors are paths in it (``spec.validation.openAPIV3Schema``
for a definition with one schema). Values that errors show are written as Go writes that version's structs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.apiserver.crd.structural.go import ordered

Object = dict[str, Any]

_PER_VERSION = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")


@dataclass(frozen=True, slots=True)
class Spec:
    """``common`` holds what is the same in all ``versions``, which are then without it."""

    source: Object
    common: Mapping[str, Any]
    versions: Sequence[Object]

    @property
    def version(self) -> str:
        return self.versions[0].get("name") or "" if self.versions else ""

    def schemas(self) -> "Iterator[Object]":
        """Every schema there is, each once."""
        for holder in (self.common, *self.versions):
            if (found := schema_of(holder)) is not None:
                yield found

    def status_enabled(self, version: Object) -> bool:
        held = version if any(one.get("subresources") is not None for one in self.versions) else self.common
        return has_status(held)

    @property
    def any_status(self) -> bool:
        return any(has_status(holder) for holder in (self.common, *self.versions))


def spec_of(obj: Mapping[str, Any]) -> Spec:
    source = obj.get("spec") or {}
    versions = [dict(version) for version in source.get("versions") or ()]
    common: Object = {}
    for key in _PER_VERSION:
        values = [version.get(key) for version in versions]
        if values and all(value == values[0] for value in values):
            common[key] = values[0]
            for version in versions:
                version.pop(key, None)
    return Spec(source, common, versions)


def schema_of(holder: Mapping[str, Any]) -> Object | None:
    """``openAPIV3Schema`` of a version, or of what versions have in common."""
    found: Object | None = (holder.get("schema") or {}).get("openAPIV3Schema")
    return found


def has_status(holder: Mapping[str, Any]) -> bool:
    return (holder.get("subresources") or {}).get("status") is not None


def parts_of(schema: Mapping[str, Any]) -> Iterator[Object]:
    """A schema and all schemas in it."""
    pending: list[Any] = [schema]
    while pending:
        one = pending.pop()
        if not isinstance(one, dict):
            continue
        yield one
        for key in ("items", "additionalProperties", "additionalItems", "not"):
            pending += one[key] if isinstance(one.get(key), list) else [one.get(key)]
        for key in ("allOf", "anyOf", "oneOf"):
            pending += one.get(key) or ()
        for key in ("properties", "patternProperties", "definitions", "dependencies"):
            pending += (one.get(key) or {}).values()


# As Go shows it

_TEXT, _FLAG, _PLAIN, _SCHEMA, _SCHEMAS, _NAMED = "text", "flag", "plain", "schema", "schemas", "named"
SCHEMA_FIELDS: tuple[tuple[str, str, str], ...] = (
    ("id", "ID", _TEXT),
    ("$schema", "Schema", _TEXT),
    ("$ref", "Ref", _PLAIN),
    ("description", "Description", _TEXT),
    ("type", "Type", _TEXT),
    ("nullable", "Nullable", _FLAG),
    ("format", "Format", _TEXT),
    ("title", "Title", _TEXT),
    ("default", "Default", _PLAIN),
    ("maximum", "Maximum", _PLAIN),
    ("exclusiveMaximum", "ExclusiveMaximum", _FLAG),
    ("minimum", "Minimum", _PLAIN),
    ("exclusiveMinimum", "ExclusiveMinimum", _FLAG),
    ("maxLength", "MaxLength", _PLAIN),
    ("minLength", "MinLength", _PLAIN),
    ("pattern", "Pattern", _TEXT),
    ("maxItems", "MaxItems", _PLAIN),
    ("minItems", "MinItems", _PLAIN),
    ("uniqueItems", "UniqueItems", _FLAG),
    ("multipleOf", "MultipleOf", _PLAIN),
    ("enum", "Enum", _PLAIN),
    ("maxProperties", "MaxProperties", _PLAIN),
    ("minProperties", "MinProperties", _PLAIN),
    ("required", "Required", _PLAIN),
    ("items", "Items", "items"),
    ("allOf", "AllOf", _SCHEMAS),
    ("oneOf", "OneOf", _SCHEMAS),
    ("anyOf", "AnyOf", _SCHEMAS),
    ("not", "Not", _SCHEMA),
    ("properties", "Properties", _NAMED),
    ("additionalProperties", "AdditionalProperties", "allows"),
    ("patternProperties", "PatternProperties", _NAMED),
    ("dependencies", "Dependencies", _PLAIN),
    ("additionalItems", "AdditionalItems", "allows"),
    ("definitions", "Definitions", _NAMED),
    ("externalDocs", "ExternalDocs", _PLAIN),
    ("example", "Example", _PLAIN),
    ("x-kubernetes-preserve-unknown-fields", "XPreserveUnknownFields", _PLAIN),
    ("x-kubernetes-embedded-resource", "XEmbeddedResource", _FLAG),
    ("x-kubernetes-int-or-string", "XIntOrString", _FLAG),
    ("x-kubernetes-list-map-keys", "XListMapKeys", _PLAIN),
    ("x-kubernetes-list-type", "XListType", _PLAIN),
    ("x-kubernetes-map-type", "XMapType", _PLAIN),
    ("x-kubernetes-validations", "XValidations", "rules"),
)
"""The fields of Go's ``JSONSchemaProps``, in its order: the key in JSON, the name in Go, the sort of value."""


def shown_schema(schema: Mapping[str, Any]) -> Object:
    """As Go writes its struct into JSON, fields that are empty included."""
    return {name: _shown(schema.get(key), sort) for key, name, sort in SCHEMA_FIELDS}


def _shown(value: Any, sort: str) -> Any:
    if sort == _TEXT:
        return value or ""
    if sort == _FLAG:
        return bool(value)
    if value is None:
        return None
    if sort == _SCHEMA:
        return shown_schema(value)
    if sort == _SCHEMAS:
        return [shown_schema(one) for one in value]
    if sort == _NAMED:
        return {name: shown_schema(value[name]) for name in sorted(value)}
    if sort == "items":
        many = isinstance(value, list)
        return {
            "Schema": None if many else shown_schema(value),
            "JSONSchemas": [shown_schema(one) for one in value] if many else None,
        }
    if sort == "allows":
        return {"Allows": value is not False, "Schema": shown_schema(value) if isinstance(value, dict) else None}
    return [shown_rule(rule) for rule in value] if sort == "rules" else ordered(value)


def shown_rule(rule: Mapping[str, Any]) -> Object:
    return {
        "Rule": rule.get("rule") or "",
        "Message": rule.get("message") or "",
        "MessageExpression": rule.get("messageExpression") or "",
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath") or "",
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }


def shown_versions(versions: Sequence[Mapping[str, Any]]) -> list[Object] | None:
    return [_shown_version(version) for version in versions] or None


def _shown_version(version: Mapping[str, Any]) -> Object:
    schema, subresources = version.get("schema"), version.get("subresources")
    columns, fields = version.get("additionalPrinterColumns"), version.get("selectableFields")
    return {
        "Name": version.get("name") or "",
        "Served": bool(version.get("served")),
        "Storage": bool(version.get("storage")),
        "Deprecated": bool(version.get("deprecated")),
        "DeprecationWarning": version.get("deprecationWarning"),
        "Schema": None if schema is None else {"OpenAPIV3Schema": _shown(schema.get("openAPIV3Schema"), _SCHEMA)},
        "Subresources": None if subresources is None else _shown_subresources(subresources),
        "AdditionalPrinterColumns": None if columns is None else [_shown_column(column) for column in columns],
        "SelectableFields": None if fields is None else [{"JSONPath": field.get("jsonPath") or ""} for field in fields],
    }


def _shown_subresources(subresources: Mapping[str, Any]) -> Object:
    scale = subresources.get("scale")
    return {
        "Status": None if subresources.get("status") is None else {},
        "Scale": None
        if scale is None
        else {
            "SpecReplicasPath": scale.get("specReplicasPath") or "",
            "StatusReplicasPath": scale.get("statusReplicasPath") or "",
            "LabelSelectorPath": scale.get("labelSelectorPath"),
        },
    }


def _shown_column(column: Mapping[str, Any]) -> Object:
    names = (("Name", "name"), ("Type", "type"), ("Format", "format"), ("Description", "description"))
    texts = {name: column.get(key) or "" for name, key in names}
    return {**texts, "Priority": column.get("priority") or 0, "JSONPath": column.get("jsonPath") or ""}
