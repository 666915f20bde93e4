"""What an update need not mend: rules are not tightened for a definition that is stored and breaks them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from apimachinery.meta import condition_status
from controlplane.apiserver.crd.structural import structuralness
from controlplane.apiserver.crd.structural.node import UnsupportedSchemaError, read
from controlplane.apiserver.kinds.apiextensions.customresourcedefinition import conversion, lists, schema_defaults
from controlplane.apiserver.kinds.apiextensions.customresourcedefinition.columns import MAX_SELECTABLE_FIELDS
from controlplane.apiserver.kinds.apiextensions.customresourcedefinition.internal import parts_of, schema_of, spec_of
from controlplane.apiserver.kinds.shared import webhook_clients

Object = dict[str, Any]

TYPES = ("array", "boolean", "integer", "number", "object", "string")


@dataclass(frozen=True, slots=True)
class Demands:
    """What is asked of a definition, beyond what is asked of each. A new one has to fulfil it all."""

    review_version: bool = True
    bundle: bool = False
    established: bool = False  # what custom resources are stored by stays
    schema: bool = True
    known_types: bool = True
    structural: bool = True
    pruned_defaults: bool = True
    atomic_sets: bool = True
    whole_keys: bool = True
    preserved: bool = False  # preserveUnknownFields may stay true
    same_schemas: frozenset[str] = frozenset()  # versions whose schema is as it was: their rules may cost what they did
    many_fields: frozenset[str] = frozenset()  # versions that may keep too many selectable fields


CREATE = Demands()


def of_update(obj: Object, old: Object) -> Demands:
    spec = spec_of(old)
    webhook = (spec.source.get("conversion") or {}).get("webhook") or {}
    versions = webhook.get("conversionReviewVersions") or ()
    established = condition_status(old, "Established") == "True"
    held = (webhook.get("clientConfig") or {}).get("caBundle") or ""
    new_versions = {version.get("name"): version for version in obj["spec"].get("versions") or ()}
    kept = [
        (version, new_versions[version.get("name")])
        for version in spec.source.get("versions") or ()
        if version.get("name") in new_versions
    ]
    return Demands(
        review_version=not versions or conversion.speaks(versions),
        bundle=established and not (held and webhook_clients.check_bundle(held, "")),
        established=established,
        schema=all(schema_of(version) is not None for version in spec.source.get("versions") or ()),
        known_types=not _any_part(old, lambda part: bool(part.get("type")) and part["type"] not in TYPES),
        structural=all(_is_structural(schema) for schema in spec.schemas()),
        pruned_defaults=all(schema_defaults.are_pruned(schema) for schema in spec.schemas() if _is_structural(schema)),
        atomic_sets=not _any_part(old, lambda part: bool(lists.check_set(part, ""))),
        whole_keys=not _any_part(old, lambda part: bool(lists.check_keys(part, ""))),
        preserved=bool(spec.source.get("preserveUnknownFields")),
        same_schemas=frozenset(new.get("name") or "" for before, new in kept if before.get("schema") == new.get("schema")),
        many_fields=frozenset(new.get("name") or "" for before, new in kept if _keeps_too_many(before, new)),
    )


def _any_part(obj: Object, predicate: Callable[[Mapping[str, Any]], bool]) -> bool:
    return any(predicate(part) for schema in spec_of(obj).schemas() for part in parts_of(schema))


def _is_structural(schema: Object) -> bool:
    try:
        return not structuralness.problems(read(schema), "")
    except UnsupportedSchemaError:
        return False


def _keeps_too_many(before: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    fields = before.get("selectableFields") or ()
    return len(fields) > MAX_SELECTABLE_FIELDS and list(fields) == list(new.get("selectableFields") or ())
