"""Quantities inside objects: put into canonical text by defaulting, checked by validation."""

from collections.abc import Mapping
from typing import Any

from apimachinery import errors, fieldpath, names, quantity
from apimachinery.fieldpath import FieldError
from controlplane.apiserver.kinds.shared.checks import NOT_NEGATIVE

_STANDARD = frozenset({"cpu", "memory", "ephemeral-storage"})


def canonical_amount(amount: str | int | float) -> str:
    """The text upstream would store. What is no quantity fails as it does in upstream's decoding: a bad request."""
    try:
        return quantity.canonical(amount)
    except ValueError as error:
        raise errors.bad_request(str(error)) from None


def canonical_amounts(amounts: dict[str, Any]) -> None:
    """Every amount of a ResourceList in its canonical text; what is finer than a thousandth is rounded up."""
    for name, amount in amounts.items():
        text = canonical_amount(amount)
        if text[-1] in "nu":
            text = str(quantity.of_milli(quantity.parse(text).milli()))
        amounts[name] = text


def is_standard(resource: str) -> bool:
    """A resource that containers may name without a domain."""
    return resource in _STANDARD or resource.startswith("hugepages-")


is_extended = names.is_extended_resource


def may_overcommit(resource: str) -> bool:
    native = "/" not in resource or "kubernetes.io/" in resource
    return native and not resource.startswith("hugepages-")


def container_resource_name(resource: str, path: str) -> list[FieldError]:
    problems = names.is_qualified_name(resource)
    if problems:
        return [fieldpath.invalid(path, resource, problem) for problem in problems]
    if "/" not in resource:
        return [] if is_standard(resource) else [fieldpath.invalid(path, resource, "must be a standard resource for containers")]
    if "kubernetes.io/" in resource or is_extended(resource):
        return []
    return [fieldpath.invalid(path, resource, "doesn't follow extended resource name standard")]


def resource_value(resource: str, amount: Any, path: str) -> list[FieldError]:
    """Not negative, and whole for resources that come in pieces."""
    parsed = quantity.parse(amount)
    if parsed < quantity.ZERO:
        return [fieldpath.invalid(path, str(parsed), NOT_NEGATIVE)]
    if ("/" in resource or resource == "pods") and not parsed.is_integer():
        return [fieldpath.invalid(path, str(parsed), "must be an integer")]
    return []


def requirements(resources: Mapping[str, Any], path: str) -> list[FieldError]:
    """``limits`` and ``requests`` of a container: known names, good values, requests within limits."""
    limits: Mapping[str, Any] = resources.get("limits") or {}
    requests: Mapping[str, Any] = resources.get("requests") or {}
    found: list[FieldError] = []
    for part, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            if name not in _STANDARD or str(amount).startswith("-"):
                where = f"{path}.{part}[{name}]"
                found += container_resource_name(name, where) + resource_value(name, amount, where)
    for name, amount in requests.items():
        found += _within_limit(name, amount, limits.get(name), path)
    return found


def _within_limit(name: str, amount: Any, limit: Any, path: str) -> list[FieldError]:
    if limit is None:
        if may_overcommit(name):
            return []
        return [fieldpath.required(f"{path}.limits", "Limit must be set for non overcommitable resources")]
    if amount == limit:
        return []
    asked, allowed = quantity.parse(amount), quantity.parse(limit)
    if asked != allowed and not may_overcommit(name):
        return [fieldpath.invalid(f"{path}.requests", str(asked), f"must be equal to {name} limit of {allowed}")]
    if asked > allowed:
        return [fieldpath.invalid(f"{path}.requests", str(asked), f"must be less than or equal to {name} limit of {allowed}")]
    return []
