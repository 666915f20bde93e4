"""Names of a custom resource, and its group: what they may be, and which groups belong to the community."""

from collections.abc import Mapping
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.cel.library.urls import is_url
from apimachinery.fieldpath import FieldError

Object = dict[str, Any]

APPROVED = "api-approved.kubernetes.io"
_PROTECTED = ("k8s.io", "kubernetes.io")
_SEE = "see https://github.com/kubernetes/enhancements/pull/1111"
_MIXED_CASE = "may have mixed case, but should otherwise match: "


def check(held: Mapping[str, Any], path: str) -> list[FieldError]:
    """Of the names that are there; which must be, :func:`check_required` says."""
    found = []
    for field in ("plural", "singular"):
        if held.get(field):
            found += _label(held[field], f"{path}.{field}")
    for field in ("kind", "listKind"):
        if held.get(field) and (problems := names.is_dns1035_label(held[field].lower())):
            found.append(fieldpath.invalid(f"{path}.{field}", held[field], _MIXED_CASE + ",".join(problems)))
    for position, name in enumerate(held.get("shortNames") or ()):
        found += _label(name, f"{path}.shortNames[{position}]")
    if held.get("kind") and held["kind"] == held.get("listKind"):
        found.append(fieldpath.invalid(f"{path}.listKind", held["listKind"], "kind and listKind may not be the same"))
    for position, name in enumerate(held.get("categories") or ()):
        found += _label(name, f"{path}.categories[{position}]")
    return found


def check_required(held: Mapping[str, Any], path: str) -> list[FieldError]:
    wanted = ("plural", "singular", "kind", "listKind")
    return [fieldpath.required(f"{path}.{field}") for field in wanted if not held.get(field)]


def check_group(group: str, path: str) -> list[FieldError]:
    if not group:
        return [fieldpath.required(path)]
    if problems := names.is_dns1123_subdomain(group):
        return [fieldpath.invalid(path, group, ",".join(problems))]
    if "." not in group:
        return [fieldpath.invalid(path, group, "should be a domain with at least one dot")]
    return []


def _label(name: str, path: str) -> list[FieldError]:
    problems = names.is_dns1035_label(name)
    return [fieldpath.invalid(path, name, ",".join(problems))] if problems else []


def check_approval(obj: Object, old: Object | None) -> list[FieldError]:
    """Groups of the community carry the address of their API's approval; an update need not mend what it does not touch."""
    group = obj["spec"].get("group") or ""
    if not any(group == owned or group.endswith(f".{owned}") for owned in _PROTECTED):
        return []
    said, state, why = _approval(obj)
    if state == "approved" or (old is not None and _approval(old)[1] == state):
        return []
    path = f"metadata.annotations[{APPROVED}]"
    return [fieldpath.required(path, why)] if state == "missing" else [fieldpath.invalid(path, said, why)]


def _approval(obj: Object) -> tuple[str, str, str]:
    said = (obj["metadata"].get("annotations") or {}).get(APPROVED) or ""
    if not said:
        return said, "missing", f'protected groups must have approval annotation "{APPROVED}", {_SEE}'
    if said.startswith("unapproved") or (is_url(said) and "://" in said and not said.partition("://")[2].startswith("/")):
        return said, "approved", ""
    either = 'with either a URL or a reason starting with "unapproved"'
    return said, "invalid", f'protected groups must have approval annotation "{APPROVED}" {either}, {_SEE}'
