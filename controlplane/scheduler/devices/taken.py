"""What has been given away: devices, and shares of devices, by the claims that have them.

Kept up to date claim by claim, as claims are written, seen and promised; the allocator only reads.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from apimachinery import quantity
from apimachinery.meta import Object
from apimachinery.objects import claims
from controlplane.scheduler.devices.pools import DeviceId


class Taken:
    """``whole`` devices belong to one claim each, ``shared`` ones to several; ``capacity`` is what is used of these, in nanos."""

    def __init__(self, listed: Iterable[Object] = ()) -> None:
        self.whole: Counter[DeviceId] = Counter()
        self.shared: Counter[DeviceId] = Counter()
        self.capacity: dict[DeviceId, Counter[str]] = {}
        for claim in listed:
            self.add(claims.results_of(claim))

    def add(self, results: Iterable[Mapping[str, Any]], sign: int = 1) -> None:
        """Results of an allocation. Devices that are only looked at (``adminAccess``) stay free."""
        for result in results:
            if result.get("adminAccess"):
                continue
            device = DeviceId(*claims.pool_key(result))
            if result.get("shareID"):
                self._count(self.shared, device, sign)
                self._use(device, result.get("consumedCapacity") or {}, sign)
            else:
                self._count(self.whole, device, sign)

    def remove(self, results: Iterable[Mapping[str, Any]]) -> None:
        self.add(results, -1)

    def has(self, device: DeviceId) -> bool:
        return device in self.whole or device in self.shared

    def _use(self, device: DeviceId, amounts: Mapping[str, Any], sign: int) -> None:
        held = self.capacity.setdefault(device, Counter())
        for name, amount in amounts.items():
            held[name] += sign * quantity.parse(amount).nanos
        if device not in self.shared:
            del self.capacity[device]

    @staticmethod
    def _count(of: Counter[DeviceId], device: DeviceId, sign: int) -> None:
        of[device] += sign
        if of[device] <= 0:
            del of[device]
