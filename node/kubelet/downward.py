"""What a pod may learn about itself: ``fieldRef`` and ``resourceFieldRef``, as text. Pure.

Called for downwardAPI volumes (``volumes/plugins``) and for environment variables of containers.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

from apimachinery import quantity

_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]")
_SIMPLE_ESCAPES = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}


def quote(text: str) -> str:
    """A double-quoted Go string literal, the form labels and annotations have in a downwardAPI file."""
    return '"' + "".join(_quoted(character) for character in text) + '"'


def _quoted(character: str) -> str:
    code = ord(character)
    if code in _SIMPLE_ESCAPES:
        return _SIMPLE_ESCAPES[code]
    if character.isprintable():
        return character
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def format_map(values: Mapping[str, str]) -> str:
    """``key="value"`` lines in key order, without a final newline."""
    return "\n".join(f"{key}={quote(values[key])}" for key in sorted(values))


def field_value(pod: Mapping[str, Any], path: str) -> str:
    """The value of a ``fieldRef``. Unset is the empty string. Raises ValueError for a path that is not supported."""
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    if match := _SUBSCRIPT.fullmatch(path):
        return str((metadata.get(match[1]) or {}).get(match[2], ""))
    match path:
        case "metadata.name" | "metadata.namespace" | "metadata.uid":
            return str(metadata.get(path.removeprefix("metadata."), ""))
        case "metadata.labels" | "metadata.annotations":
            return format_map(metadata.get(path.removeprefix("metadata.")) or {})
        case "spec.nodeName" | "spec.serviceAccountName":
            return str(spec.get(path.removeprefix("spec."), ""))
        case "status.hostIP" | "status.podIP":
            return str(status.get(path.removeprefix("status."), ""))
        case "status.hostIPs" | "status.podIPs":
            return ",".join(item["ip"] for item in status.get(path.removeprefix("status.")) or ())
    raise ValueError(f"unsupported fieldPath: {path}")


def resource_value(pod: Mapping[str, Any], ref: Mapping[str, Any], container: str, allocatable: Mapping[str, str]) -> str:
    """The value of a ``resourceFieldRef`` in units of its divisor, rounded up.

    A missing limit reads as what the node can give (``allocatable``), a missing request as 0. Raises ValueError.
    """
    wanted = ref.get("containerName") or container
    spec = pod["spec"]
    everyone = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    found = next((item for item in everyone if item["name"] == wanted), None)
    if found is None:
        raise ValueError(f"container {wanted} not found")
    kind, _, resource = str(ref["resource"]).partition(".")
    if kind not in ("limits", "requests") or not resource:
        raise ValueError(f"unsupported container resource : {ref['resource']}")
    given = ((found.get("resources") or {}).get(kind) or {}).get(resource)
    if given is None and kind == "limits":
        given = allocatable.get(resource)
    return _divide(resource, given, ref.get("divisor"))


def _divide(resource: str, given: Any, divisor: Any) -> str:
    amount = quantity.parse(given if given is not None else "0")
    unit = quantity.parse(divisor if divisor not in (None, "", "0", 0) else "1")
    if resource == "cpu":
        return str(math.ceil(amount.milli() / unit.milli()))
    return str(-(-amount.value() // unit.value()))
