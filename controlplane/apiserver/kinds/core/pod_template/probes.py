"""Validation of probes and lifecycle hooks."""

from collections.abc import Mapping
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from controlplane.apiserver.kinds.shared import checks

_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")


def validate_probes(container: Mapping[str, Any], grace: int, path: str) -> list[FieldError]:
    """``livenessProbe``, ``readinessProbe``, ``startupProbe`` and ``lifecycle`` of a long-running container."""
    found: list[FieldError] = []
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(name)
        if probe is None:
            continue
        where = f"{path}.{name}"
        found += _probe(probe, grace, where)
        if name != "readinessProbe":
            if probe.get("successThreshold", 1) != 1:
                found.append(fieldpath.invalid(f"{where}.successThreshold", probe["successThreshold"], "must be 1"))
        elif probe.get("terminationGracePeriodSeconds") is not None:
            value = probe["terminationGracePeriodSeconds"]
            found.append(
                fieldpath.invalid(f"{where}.terminationGracePeriodSeconds", value, "must not be set for readinessProbes")
            )
    for hook, handler in (container.get("lifecycle") or {}).items():
        if hook in ("postStart", "preStop"):
            found += _handler(handler, grace, f"{path}.lifecycle.{hook}")
    return found


def _probe(probe: Mapping[str, Any], grace: int, path: str) -> list[FieldError]:
    found = _handler(probe, grace, path)
    for field in _NUMBERS:
        value = probe.get(field)
        if value is not None and value < 0:
            found.append(fieldpath.invalid(f"{path}.{field}", value, checks.NOT_NEGATIVE))
    own_grace = probe.get("terminationGracePeriodSeconds")
    if own_grace is not None and own_grace <= 0:
        found.append(fieldpath.invalid(f"{path}.terminationGracePeriodSeconds", own_grace, "must be greater than 0"))
    return found


def _handler(handler: Mapping[str, Any], grace: int, path: str) -> list[FieldError]:
    given = [name for name in _HANDLERS if handler.get(name) is not None]
    if not given:
        return [fieldpath.required(path, "must specify a handler type")]
    found = [fieldpath.forbidden(f"{path}.{name}", "may not specify more than 1 handler type") for name in given[1:]]
    name = given[0]
    action, where = handler[name], f"{path}.{name}"
    if name == "exec":
        if not action.get("command"):
            found.append(fieldpath.required(f"{where}.command"))
    elif name == "httpGet":
        found += _http(action, where)
    elif name == "tcpSocket":
        found += port_number_or_name(action.get("port"), f"{where}.port")
    elif name == "grpc":
        port = action.get("port") or 0
        found += checks.each(f"{where}.port", port, names.is_port_number(port))
    else:
        seconds = action.get("seconds") or 0
        if seconds < 0 or seconds > grace:
            text = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
            found.append(fieldpath.invalid(where, seconds, text))
    return found


def _http(action: Mapping[str, Any], path: str) -> list[FieldError]:
    found: list[FieldError] = []
    if not action.get("path"):
        found.append(fieldpath.required(f"{path}.path"))
    found += port_number_or_name(action.get("port"), f"{path}.port")
    if action.get("scheme") not in ("HTTP", "HTTPS"):
        found.append(fieldpath.not_supported(f"{path}.scheme", action.get("scheme"), ("HTTP", "HTTPS")))
    for header in action.get("httpHeaders") or ():
        name = header.get("name") or ""
        found += checks.each(f"{path}.httpHeaders", name, names.is_header_name(name))
    return found


def port_number_or_name(port: Any, path: str) -> list[FieldError]:
    """An IntOrString that names a container port."""
    if isinstance(port, str):
        return checks.each(path, port, names.is_port_name(port))
    number = port or 0
    return checks.each(path, number, names.is_port_number(number))
