"""What the kinds of the group share: requests for devices, selectors, configuration."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from controlplane.apiserver.kinds.shared import checks

Object = dict[str, Any]
GROUP = "resource.k8s.io"
_MODES = ("All", "ExactCount")
_REQUESTS_MAX = _CONSTRAINTS_MAX = _CONFIG_MAX = _SELECTORS_MAX = 32
_SUBREQUESTS_MAX = 8
_PARAMETERS_MAX = 10 * 1024
_ONE_OF = "exactly one of `exactly` or `firstAvailable` is required"


NOT_A_REQUEST = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
TAINT_EFFECTS = ("NoExecute", "NoSchedule", "None")


def default_claim(spec: Object) -> None:
    """A ``ResourceClaimSpec``."""
    for request in (spec.get("devices") or {}).get("requests") or ():
        for asked in _asked(request):
            if not asked.get("allocationMode"):
                asked["allocationMode"] = "ExactCount"
            if asked["allocationMode"] == "ExactCount" and not asked.get("count"):
                asked["count"] = 1
            for toleration in asked.get("tolerations") or ():
                if not toleration.get("operator"):
                    toleration["operator"] = "Equal"


def _asked(request: Mapping[str, Any]) -> Iterator[Object]:
    if request.get("exactly") is not None:
        yield request["exactly"]
    yield from request.get("firstAvailable") or ()


def check_claim(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    """A ``ResourceClaimSpec`` at ``path``."""
    devices, where = spec.get("devices") or {}, f"{path}.devices"
    requests = devices.get("requests") or ()
    found = _at_most(requests, _REQUESTS_MAX, f"{where}.requests")
    known: set[str] = set()
    for position, request in enumerate(requests):
        here, name = f"{where}.requests[{position}]", request.get("name") or ""
        found += check_name(name, f"{here}.name", known)
        known |= {f"{name}/{one.get('name') or ''}" for one in request.get("firstAvailable") or ()}
        found += _check_request(request, here)
    constraints = devices.get("constraints") or ()
    found += _at_most(constraints, _CONSTRAINTS_MAX, f"{where}.constraints")
    for position, constraint in enumerate(constraints):
        found += _check_constraint(constraint, f"{where}.constraints[{position}]", known)
    configs = devices.get("config") or ()
    found += _at_most(configs, _CONFIG_MAX, f"{where}.config")
    for position, config in enumerate(configs):
        here = f"{where}.config[{position}]"
        found += _check_names(config.get("requests") or (), f"{here}.requests", known)
        found += check_config(config, here)
    return found


def check_name(name: str, path: str, taken: set[str]) -> list[FieldError]:
    """A DNS label that no other in the list has; adds it to ``taken``."""
    if not name:
        return [fieldpath.required(path)]
    found = checks.each(path, name, names.is_dns1123_label(name))
    if name in taken:
        found.append(fieldpath.duplicate(path, name))
    taken.add(name)
    return found


def _at_most(items: Sequence[Any], limit: int, path: str) -> list[FieldError]:
    return [fieldpath.too_many(path, len(items), limit)] if len(items) > limit else []


def _check_request(request: Mapping[str, Any], path: str) -> list[FieldError]:
    exactly, choices = request.get("exactly"), request.get("firstAvailable") or ()
    if exactly is None and not choices:
        return [fieldpath.required(path, _ONE_OF)]
    if exactly is not None and choices:
        return [fieldpath.invalid(path, request, f"{_ONE_OF}, but multiple fields are set")]
    if exactly is not None:
        return _check_asked(exactly, f"{path}.exactly")
    found = _at_most(choices, _SUBREQUESTS_MAX, f"{path}.firstAvailable")
    taken: set[str] = set()
    for position, choice in enumerate(choices):
        here = f"{path}.firstAvailable[{position}]"
        found += check_name(choice.get("name") or "", f"{here}.name", taken) + _check_asked(choice, here)
    return found


def _check_asked(asked: Mapping[str, Any], path: str) -> list[FieldError]:
    """What ``exactly`` and the entries of ``firstAvailable`` have in common."""
    found = check_driver(asked.get("deviceClassName") or "", f"{path}.deviceClassName")
    found += check_selectors(asked.get("selectors") or (), f"{path}.selectors")
    mode, count = asked.get("allocationMode"), asked.get("count") or 0
    if mode == "All" and count:
        found.append(fieldpath.invalid(f"{path}.count", count, "must not be specified when allocationMode is 'All'"))
    elif mode == "ExactCount" and count <= 0:
        found.append(fieldpath.invalid(f"{path}.count", count, "must be greater than zero"))
    elif mode not in _MODES:
        found.append(fieldpath.not_supported(f"{path}.allocationMode", mode or "", _MODES))
    return found


def check_driver(name: str, path: str) -> list[FieldError]:
    """A required DNS subdomain: names of drivers and of device classes."""
    return checks.each(path, name, names.is_dns1123_subdomain(name)) if name else [fieldpath.required(path)]


def check_selectors(selectors: Sequence[Mapping[str, Any]], path: str) -> list[FieldError]:
    """Expressions must be there, compile, and not cost too much on any device."""
    found = _at_most(selectors, _SELECTORS_MAX, path)
    for position, selector in enumerate(selectors):
        cel = selector.get("cel")
        if cel is None:
            found.append(fieldpath.required(f"{path}[{position}].cel"))
        elif not cel.get("expression"):
            found.append(fieldpath.required(f"{path}[{position}].cel.expression"))
        else:
            found += _check_expression(cel["expression"], f"{path}[{position}].cel.expression")
    return found


def _check_expression(expression: str, path: str) -> list[FieldError]:
    from apimachinery.cel import device  # 24 MB that a cluster without devices does not need

    if len(expression) > device.MAX_LENGTH:
        return [fieldpath.too_long(path, device.MAX_LENGTH)]
    try:
        made = device.selector(expression)
    except device.CompileError as error:
        return [fieldpath.invalid(path, expression, str(error))]
    return [fieldpath.forbidden(path, "too complex, exceeds cost limit")] if device.is_too_complex(made) else []


def _check_names(wanted: Sequence[str], path: str, known: set[str]) -> list[FieldError]:
    found: list[FieldError] = []
    for position, name in enumerate(wanted):
        if name not in known:
            found.append(fieldpath.invalid(f"{path}[{position}]", name, NOT_A_REQUEST))
        if name in wanted[:position]:
            found.append(fieldpath.duplicate(f"{path}[{position}]", name))
    return found


def _check_constraint(constraint: Mapping[str, Any], path: str, known: set[str]) -> list[FieldError]:
    found = _check_names(constraint.get("requests") or (), f"{path}.requests", known)
    given = [field for field in ("matchAttribute", "distinctAttribute") if constraint.get(field) is not None]
    if not given:
        return [*found, fieldpath.required(path, "exactly one of `matchAttribute` or `distinctAttribute` is required")]
    for field in given:
        name = constraint[field]
        domain, slash, identifier = name.partition("/")
        if not slash or not domain or not identifier:
            found.append(fieldpath.invalid(f"{path}.{field}", name, "must include a domain"))
        else:
            found += checks.each(f"{path}.{field}", domain, names.is_dns1123_subdomain(domain))
            found += checks.each(f"{path}.{field}", identifier, names.is_c_identifier(identifier))
    return found


def check_config(config: Mapping[str, Any], path: str) -> list[FieldError]:
    opaque = config.get("opaque")
    if opaque is None:
        return [fieldpath.required(f"{path}.opaque")]
    found = check_driver(opaque.get("driver") or "", f"{path}.opaque.driver")
    parameters, where = opaque.get("parameters"), f"{path}.opaque.parameters"
    if parameters is None:
        found.append(fieldpath.required(where))
    elif not isinstance(parameters, dict):
        found.append(fieldpath.invalid(where, "<value omitted>", "parameters must be a valid JSON object"))
    elif len(json.dumps(parameters, separators=(",", ":"))) > _PARAMETERS_MAX:
        found.append(fieldpath.too_long(where, _PARAMETERS_MAX))
    return found


def check_taint(taint: Mapping[str, Any], path: str) -> list[FieldError]:
    """A taint of a device (KEP-5055)."""
    key, value = taint.get("key") or "", taint.get("value") or ""
    found = checks.each(f"{path}.key", key, names.is_qualified_name(key))
    found += checks.each(f"{path}.value", value, names.is_label_value(value))
    return found + checks.one_of(taint.get("effect") or "", TAINT_EFFECTS, f"{path}.effect")
