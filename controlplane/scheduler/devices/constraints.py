"""What must hold between the devices of one claim: ``matchAttribute`` and ``distinctAttribute``.

Both only get harder to fulfil with each device, so a search may stop at the first that does not fit. Attributes that are lists
(KEP-5491) match where they have a value in common, and are distinct where they have none.
"""

from collections.abc import Mapping
from typing import Any

from controlplane.scheduler.devices.pools import Device

_PLAIN = ("int", "bool", "string", "version")
_LISTS = {"ints": "int", "bools": "bool", "strings": "string", "versions": "version"}

Values = frozenset[tuple[str, Any]]


def values_of(device: Device, attribute: str) -> Values:
    """The values of an attribute, with their types; empty if the device has no such attribute."""
    attributes = device.entry.get("attributes") or {}
    held: Mapping[str, Any] | None = attributes.get(attribute)
    domain, _, name = attribute.partition("/")
    if held is None and domain == device.id.driver:
        held = attributes.get(name)
    found = {(field, held[field]) for field in _PLAIN if held is not None and held.get(field) is not None}
    for field, kind in _LISTS.items():
        found |= {(kind, value) for value in (held or {}).get(field) or ()}
    return frozenset(found)


class Constraint:
    """One entry of a claim's ``constraints``, with the devices that have been chosen under it so far."""

    def __init__(self, described: Mapping[str, Any]) -> None:
        self._requests = frozenset(described.get("requests") or ())
        self._distinct = described.get("distinctAttribute") is not None
        self._attribute = str(described.get("distinctAttribute") or described.get("matchAttribute") or "")
        self._chosen: list[Values] = []
        self._common: list[Values] = []

    def applies(self, request: str, full: str) -> bool:
        """``full`` names the alternative too, where there is one."""
        return not self._requests or request in self._requests or full in self._requests

    def push(self, device: Device) -> bool:
        """Add a device; False, and nothing is added, if it does not fit."""
        values = values_of(device, self._attribute)
        if not values:
            return False
        if self._distinct:
            if any(values & other for other in self._chosen):
                return False
            self._chosen.append(values)
            return True
        common = values & self._common[-1] if self._common else values
        if not common:
            return False
        self._common.append(common)
        return True

    def pop(self) -> None:
        """Take the last device away again."""
        (self._chosen if self._distinct else self._common).pop()
