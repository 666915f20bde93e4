"""``openAPIV3Schema`` of a definition: structural, with valid defaults, and with what OpenAPI allows and custom resources do."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from apimachinery import fieldpath
from apimachinery.fieldpath import FieldError, Path
from controlplane.apiserver.crd.structural import structuralness
from controlplane.apiserver.crd.structural.node import META_FIELDS, UnsupportedSchemaError, read
from controlplane.apiserver.kinds.apiextensions.customresourcedefinition import lists, schema_defaults
from controlplane.apiserver.kinds.apiextensions.customresourcedefinition import rules as ruling
from controlplane.apiserver.kinds.apiextensions.customresourcedefinition.internal import SCHEMA_FIELDS, shown_schema
from controlplane.apiserver.kinds.apiextensions.customresourcedefinition.tolerance import TYPES, Demands

Schema = Mapping[str, Any]

_AT_ROOT = (
    *("Description", "Type", "Format", "Title", "Maximum", "ExclusiveMaximum", "Minimum", "ExclusiveMinimum", "MaxLength"),
    *("MinLength", "Pattern", "MaxItems", "MinItems", "UniqueItems", "MultipleOf", "Required", "Items", "Properties"),
    *("ExternalDocs", "Example", "XPreserveUnknownFields", "XValidations"),
)
_ONLY_AT_ROOT = f"only [{' '.join(_AT_ROOT)}] fields are allowed at the root of the schema if the status subresource is enabled"
_ROOT_TYPE = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
_QUADRATIC = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
_NO_NULL = "type cannot be set to null, use nullable as an alternative"


@dataclass(frozen=True, slots=True)
class _Context:
    """What the place of a schema forbids. ``no_defaults`` says why, or is None where defaults may be.

    ``times`` and ``uncorrelated`` are what ``RuleChecks.check`` asks for.
    """

    demands: Demands
    no_defaults: str | None = None
    inside_meta: bool = False
    rules: ruling.RuleChecks | None = None  # rules stand at values, not where those are judged together
    times: int | None = 1
    uncorrelated: str | None = None


def check(schema: dict[str, Any], path: str, demands: Demands, *, has_status: bool, unchanged: bool) -> list[FieldError]:
    """Everything wrong with a schema. ``path`` is the schema's own, ``has_status`` whether there is a status subresource.

    ``unchanged``: it was there before, so that its rules may cost what they did.
    """
    found = _check_root(schema, path) if has_status else []
    if schema.get("nullable"):
        found.append(fieldpath.forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    unsupported, rules = "", None
    if demands.structural:
        try:
            node = read(schema)
            wrong = structuralness.problems(node, path) or schema_defaults.problems(node, path, pruned=demands.pruned_defaults)
            rules = None if wrong else ruling.RuleChecks(node, may_cost=unchanged)
            found += wrong
        except UnsupportedSchemaError as error:
            unsupported = str(error)
    found += _check(schema, Path(path), _Context(demands, rules=rules), is_root=True)
    if rules is not None:
        found += rules.errors
    if unsupported and not found:
        found.append(fieldpath.invalid(path, "", unsupported))
    return found + (rules.total_problems(path) if rules is not None else [])


def _check_root(schema: Schema, path: str) -> list[FieldError]:
    """Only what can be taken apart into a schema of the status and one of the rest."""
    for key, name, _ in SCHEMA_FIELDS:
        value = schema.get(key)
        if value in (None, "", False, [], {}):
            continue
        if key == "type" and value != "object":
            return [fieldpath.invalid(f"{path}.type", value, _ROOT_TYPE)]
        if name not in _AT_ROOT:
            return [fieldpath.invalid(path, shown_schema(schema), _ONLY_AT_ROOT)]
    return []


def _check(schema: Schema, path: Path, context: _Context, *, is_root: bool = False) -> list[FieldError]:
    found = _check_openapi(schema, path, context)
    if schema.get("uniqueItems"):
        found.append(fieldpath.forbidden(path / "uniqueItems", _QUADRATIC))
    below = replace(context, times=ruling.most_values(schema, context.times))
    found += _check_fields(schema, path, below, is_root=is_root)
    nested = replace(context, rules=None)
    if schema.get("not") is not None:
        found += _check(schema["not"], path / "not", nested)
    for key in ("allOf", "oneOf", "anyOf"):
        for position, inner in enumerate(schema.get(key) or ()):
            found += _check(inner, (path / key).index(position), nested)
    items = schema.get("items")
    if isinstance(items, dict):
        keyed = schema.get("x-kubernetes-list-type") == "map"
        found += _check(items, path / "items", below if keyed else replace(below, uncorrelated=below.uncorrelated or path))
    for position, inner in enumerate(items if isinstance(items, list) else ()):
        found += _check(inner, (path / "items").index(position), context)
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        here = path / "x-kubernetes-preserve-unknown-fields"
        found.append(fieldpath.invalid(here, False, "must be true or undefined"))
    found += lists.check_map_type(schema, path)
    found += lists.check_list_type(schema, path, atomic_sets=context.demands.atomic_sets)
    found += lists.check_keys(schema, path) if context.demands.whole_keys else []
    found += ruling.check_form(schema, path)
    if not found and context.rules is not None:
        context.rules.check(schema, path, context.times, context.uncorrelated)
    return found


def _check_fields(schema: Schema, path: Path, context: _Context, *, is_root: bool) -> list[FieldError]:
    found: list[FieldError] = []
    more, properties = schema.get("additionalProperties"), schema.get("properties") or {}
    if more is not None:
        if properties and more is not True:
            text = "additionalProperties and properties are mutual exclusive"
            found.append(fieldpath.forbidden(path / "additionalProperties", text))
        if isinstance(more, dict):
            why = "inside additionalProperties applying to object metadata"
            inner = replace(context, no_defaults=why) if context.inside_meta else context
            found += _check(more, path / "additionalProperties", inner)
    is_resource = is_root or bool(schema.get("x-kubernetes-embedded-resource"))
    for name, one in properties.items():
        inner = context
        if is_resource and name in META_FIELDS:
            inner = replace(context, inside_meta=True, no_defaults=f"in top-level {name}" if is_root else context.no_defaults)
        found += _check(one, (path / "properties").key(name), inner)
    return found


def _check_openapi(schema: Schema, path: Path, context: _Context) -> list[FieldError]:
    kind = schema.get("type") or ""
    found: list[FieldError] = []
    if context.demands.known_types and kind and kind not in TYPES:
        found.append(fieldpath.not_supported(path / "type", kind, TYPES))
    if schema.get("default") is not None and context.no_defaults is not None:
        found.append(fieldpath.forbidden(path / "default", f"must not be set {context.no_defaults}"))
    unsupported = (
        ("id", bool(schema.get("id"))),
        ("additionalItems", schema.get("additionalItems") is not None),
        ("patternProperties", bool(schema.get("patternProperties"))),
        ("definitions", bool(schema.get("definitions"))),
        ("dependencies", bool(schema.get("dependencies"))),
        ("$ref", schema.get("$ref") is not None),
    )
    found += [fieldpath.forbidden(path / key, f"{key} is not supported") for key, said in unsupported if said]
    if kind == "null":
        found.append(fieldpath.forbidden(path / "type", _NO_NULL))
    if isinstance(schema.get("items"), list) and schema["items"]:
        found.append(fieldpath.forbidden(path / "items", "items must be a schema object and not an array"))
    if context.inside_meta and schema.get("x-kubernetes-embedded-resource"):
        text = "must not be used inside of resource meta"
        found.append(fieldpath.forbidden(path / "x-kubernetes-embedded-resource", text))
    return found
