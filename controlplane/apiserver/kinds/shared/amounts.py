"""Quantities inside objects: put into canonical text by defaulting, checked by validation."""

from collections.abc import Collection, Mapping
from typing import Any

from apimachinery import errors, fieldpath, names, quantity
from apimachinery.fieldpath import FieldError
from controlplane.apiserver.kinds.shared.checks import NOT_NEGATIVE

_HUGE_PAGES = "hugepages-"
_STANDARD = frozenset({"cpu", "memory", "ephemeral-storage"})
OBJECT_COUNTS = frozenset(
    {
        *("pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "persistentvolumeclaims", "configmaps"),
        *("services.nodeports", "services.loadbalancers"),
    }
)
_OF_PARTS = frozenset(f"{part}.{name}" for part in ("requests", "limits") for name in _STANDARD)
QUOTA_RESOURCES = _STANDARD | _OF_PARTS | OBJECT_COUNTS | {"requests.storage"}
_KNOWN = QUOTA_RESOURCES | {"storage"}


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


def resource_name(resource: str, path: str) -> list[FieldError]:
    """A name that quotas, limit ranges and containers may use: one of Kubernetes' own, or one with a domain."""
    problems = names.is_qualified_name(resource)
    if problems:
        return [fieldpath.invalid(path, resource, problem) for problem in problems]
    if "/" in resource or resource in _KNOWN or resource.removeprefix("requests.").startswith(_HUGE_PAGES):
        return []
    return [fieldpath.invalid(path, resource, "must be a standard resource type or fully qualified")]


def quota_resource_name(resource: str, path: str) -> list[FieldError]:
    found = resource_name(resource, path)
    if "/" not in resource and not is_quota_resource(resource):
        found.append(fieldpath.invalid(path, resource, "must be a standard resource for quota"))
    return found


def is_quota_resource(resource: str) -> bool:
    """One of Kubernetes' own resources that quotas count."""
    return resource in QUOTA_RESOURCES or resource.removeprefix("requests.").startswith(_HUGE_PAGES)


def container_resource_name(resource: str, path: str) -> list[FieldError]:
    problems = names.is_qualified_name(resource)
    if problems:
        return [fieldpath.invalid(path, resource, problem) for problem in problems]
    if "/" not in resource:
        found = resource_name(resource, path)
        if not is_standard(resource):
            found.append(fieldpath.invalid(path, resource, "must be a standard resource for containers"))
        return found
    if "kubernetes.io/" in resource or is_extended(resource):
        return []
    return [fieldpath.invalid(path, resource, "doesn't follow extended resource name standard")]


def resource_value(resource: str, amount: Any, path: str) -> list[FieldError]:
    """Not negative, and whole for resources that come in pieces."""
    parsed = quantity.parse(amount)
    if parsed < quantity.ZERO:
        return [fieldpath.invalid(path, str(parsed), NOT_NEGATIVE)]
    if ("/" in resource or resource in OBJECT_COUNTS) and not parsed.is_integer():
        return [fieldpath.invalid(path, str(parsed), "must be an integer")]
    return []


def requirements(resources: Mapping[str, Any], path: str, claims: Collection[str] = ()) -> list[FieldError]:
    """``limits``, ``requests`` and ``claims`` of a container: known names, good values, requests within limits.

    ``claims`` are the names of the pod's ``resourceClaims``.
    """
    limits: Mapping[str, Any] = resources.get("limits") or {}
    requests: Mapping[str, Any] = resources.get("requests") or {}
    found: list[FieldError] = []
    for part, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            if name not in _STANDARD or str(amount).startswith("-"):
                where = f"{path}.{part}[{name}]"
                found += container_resource_name(name, where) + resource_value(name, amount, where)
                if name.startswith(_HUGE_PAGES):
                    found += _huge_page_value(name, amount, where)
    for name, amount in requests.items():
        found += _within_limit(name, amount, limits.get(name), path)
    asked = limits.keys() | requests.keys()
    if any(name.startswith(_HUGE_PAGES) for name in asked) and not asked & {"cpu", "memory"}:
        found.append(fieldpath.forbidden(path, "HugePages require cpu or memory"))
    if resources.get("claims"):
        found += _claims(resources["claims"], claims, f"{path}.claims")
    return found


def _huge_page_value(resource: str, amount: Any, path: str) -> list[FieldError]:
    try:
        page = quantity.parse(resource.removeprefix(_HUGE_PAGES))
    except ValueError:
        return []  # a page size that is none: the name itself is accepted, by upstream too
    asked = quantity.parse(amount)
    if page <= quantity.ZERO or asked.value() % page.value():
        text = f"{asked} is not positive integer multiple of {resource}"
        return [fieldpath.invalid(path, str(asked), text)]
    return []


def _claims(asked: Collection[Mapping[str, Any]], held: Collection[str], path: str) -> list[FieldError]:
    found: list[FieldError] = []
    taken: set[tuple[str, str]] = set()
    for position, claim in enumerate(asked):
        where, name, request = f"{path}[{position}]", claim.get("name") or "", claim.get("request") or ""
        if not name:
            found.append(fieldpath.required(where))
            continue
        if (name, request) in taken or (name, "") in taken or (not request and any(one == name for one, _ in taken)):
            found.append(fieldpath.duplicate(where, f"{name}/{request}" if request else name))
        taken.add((name, request))
        if name not in held:
            known = f": {', '.join(sorted(held))}" if held else " which is empty"
            found.append(fieldpath.not_found(where, name, f"must be one of the names in pod.spec.resourceClaims{known}"))
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
