"""Validation that many kinds share: labels, selectors, annotations, numbers, immutable fields.

Each function returns field errors with upstream's texts (k8s.io/apimachinery and k8s.io/kubernetes ``pkg/apis``). Paths are
plain strings, put together only where something is wrong: this runs for every write.
"""

import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError

_HTTP_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_HTTP_PATH_RE = re.compile(_HTTP_PATH)
IMMUTABLE = "field is immutable"
NOT_NEGATIVE = "must be greater than or equal to 0"
ANNOTATIONS_MAX = 256 * 1024


def labels(held: Mapping[str, str] | None, path: str) -> list[FieldError]:
    found: list[FieldError] = []
    for key, value in (held or {}).items():
        found += label_key(key, path)
        found += [fieldpath.invalid(path, value, problem) for problem in names.is_label_value(value)]
    return found


def label_key(key: str, path: str) -> list[FieldError]:
    return [fieldpath.invalid(path, key, problem) for problem in names.is_qualified_name(key)]


def annotations(held: Mapping[str, str] | None, path: str) -> list[FieldError]:
    found: list[FieldError] = []
    size = 0
    for key, value in (held or {}).items():
        # The rule is on lower-cased keys: upstream lets capitals pass in the prefix of annotations only.
        found += [fieldpath.invalid(path, key, problem) for problem in names.is_qualified_name(key.lower())]
        size += len(key) + len(value)
    if size > ANNOTATIONS_MAX:
        found.append(fieldpath.too_long(path, ANNOTATIONS_MAX))
    return found


def label_selector(selector: Mapping[str, Any] | None, path: str) -> list[FieldError]:
    """A ``metav1.LabelSelector``."""
    if not selector:
        return []
    found = labels(selector.get("matchLabels"), f"{path}.matchLabels") if selector.get("matchLabels") else []
    for position, expression in enumerate(selector.get("matchExpressions") or ()):
        found += _requirement(expression, f"{path}.matchExpressions[{position}]")
    return found


def _requirement(expression: Mapping[str, Any], path: str) -> list[FieldError]:
    found: list[FieldError] = []
    operator, values = expression.get("operator", ""), expression.get("values") or ()
    if operator in ("In", "NotIn"):
        if not values:
            found.append(fieldpath.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            found.append(fieldpath.forbidden(f"{path}.values", detail))
    else:
        found.append(fieldpath.invalid(f"{path}.operator", operator, "not a valid selector operator"))
    found += label_key(expression.get("key", ""), f"{path}.key")
    for position, value in enumerate(values):
        found += [fieldpath.invalid(f"{path}.values[{position}]", value, one) for one in names.is_label_value(value)]
    return found


def not_negative(value: int | None, path: str) -> list[FieldError]:
    """Numbers that may be zero but not less; None passes."""
    if value is None or value >= 0:
        return []
    return [fieldpath.invalid(path, value, NOT_NEGATIVE)]


def immutable(new: Any, old: Any, path: str) -> list[FieldError]:
    return [] if new == old else [fieldpath.invalid(path, new, IMMUTABLE)]


def one_of(value: Any, choices: Iterable[str], path: str) -> list[FieldError]:
    """A required enumeration."""
    listed = tuple(choices)
    if value in listed:
        return []
    return [fieldpath.not_supported(path, value, listed)] if value else [fieldpath.required(path)]


def domain_prefixed_path(text: str, path: str) -> list[FieldError]:
    """``example.com/controller``."""
    domain, slash, rest = text.partition("/")
    if not text:
        return [fieldpath.required(path)]
    if not slash or not domain or not rest:
        return [fieldpath.invalid(path, text, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    found = each(path, domain, names.is_dns1123_subdomain(domain))
    if not _HTTP_PATH_RE.fullmatch(rest):
        found.append(fieldpath.invalid(path, rest, names.regex_error("Invalid path", _HTTP_PATH)))
    return found


def each(path: str, value: Any, problems: Iterable[str]) -> list[FieldError]:
    """One ``Invalid value`` for every message of a naming rule."""
    return [fieldpath.invalid(path, value, problem) for problem in problems]


def reachable_address(address: str, path: str) -> list[FieldError]:
    """An address that traffic may be sent to: neither this machine nor this link, so that nobody has a proxy reach for them."""
    problems = names.is_ip(address)
    if problems:
        return each(path, address, problems)
    ip = plain_ip(address)
    if ip.is_unspecified:
        problems.append(f"may not be unspecified ({address})")
    if ip.is_loopback:
        problems.append("may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if ip.is_link_local:
        problems.append("may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    if ip.is_multicast and (ip in ipaddress.ip_network("224.0.0.0/24" if ip.version == 4 else "ff02::/10")):
        problems.append("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
    return each(path, address, problems)


def plain_ip(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An IPv4 address in IPv6 form (``::ffff:127.0.0.1``) is an IPv4 address, as for Go."""
    ip = ipaddress.ip_address(address)
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return mapped or ip
