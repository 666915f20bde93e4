"""Eviction thresholds as the configuration gives them. Pure; ``config.py`` calls it, ``decide`` reads the result.

Rules: upstream's "Node-pressure Eviction" page, and KubeletConfiguration's evictionHard, evictionSoft and their companions.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from apimachinery import quantity
from component.flags import parse_duration

MEMORY = "memory.available"
ALLOCATABLE_MEMORY = "allocatableMemory.available"
NODEFS, NODEFS_INODES = "nodefs.available", "nodefs.inodesFree"
IMAGEFS, IMAGEFS_INODES = "imagefs.available", "imagefs.inodesFree"
CONTAINERFS, CONTAINERFS_INODES = "containerfs.available", "containerfs.inodesFree"
PID = "pid.available"

CONFIGURABLE = (MEMORY, NODEFS, NODEFS_INODES, IMAGEFS, IMAGEFS_INODES, CONTAINERFS, CONTAINERFS_INODES, PID)
DEFAULT_HARD = {MEMORY: "100Mi", NODEFS: "10%", NODEFS_INODES: "5%", IMAGEFS: "15%", IMAGEFS_INODES: "5%"}

CONDITIONS = {
    MEMORY: "MemoryPressure",
    ALLOCATABLE_MEMORY: "MemoryPressure",
    PID: "PIDPressure",
    **dict.fromkeys((NODEFS, NODEFS_INODES, IMAGEFS, IMAGEFS_INODES, CONTAINERFS, CONTAINERFS_INODES), "DiskPressure"),
}
RESOURCES = {
    MEMORY: "memory",
    ALLOCATABLE_MEMORY: "memory",
    PID: "pids",
    **dict.fromkeys((NODEFS, IMAGEFS, CONTAINERFS), "ephemeral-storage"),
    **dict.fromkeys((NODEFS_INODES, IMAGEFS_INODES, CONTAINERFS_INODES), "inodes"),
}


class ThresholdError(ValueError):
    """The text names the threshold at fault."""


@dataclass(frozen=True, slots=True)
class Amount:
    """A quantity, or a share of the capacity between 0 and 1."""

    absolute: int = 0
    share: float | None = None

    def of(self, capacity: int) -> int:
        """In the signal's own unit: bytes, inodes, processes."""
        return self.absolute if self.share is None else int(capacity * self.share)

    def shown(self, signal: str, capacity: int) -> str:
        """As events show it: ``100Mi``."""
        return shown(signal, self.of(capacity))


@dataclass(frozen=True, slots=True)
class Threshold:
    """Met while less than ``amount`` is left of ``signal``. ``grace`` seconds pass before a soft one counts; a hard one has 0."""

    signal: str
    amount: Amount
    grace: float = 0.0
    reclaim: Amount = Amount()

    @property
    def hard(self) -> bool:
        return self.grace == 0


def shown(signal: str, number: int) -> str:
    """A number of a signal as a quantity: bytes in binary units, counts in decimal ones."""
    counted = RESOURCES[signal] in ("inodes", "pids")
    return str(quantity.of(number, "DecimalSI" if counted else "BinarySI"))


def amount(signal: str, text: str) -> Amount | None:
    """``100Mi`` or ``10%``; None for 0% and 100%, which switch a threshold off. Raises ThresholdError."""
    if text.endswith("%"):
        try:
            percent = float(text[:-1])
        except ValueError:
            raise ThresholdError(f"{signal}: {text!r} is not a percentage") from None
        if percent in (0, 100):
            return None
        if percent < 0:
            raise ThresholdError(f"eviction percentage threshold {signal} must be >= 0%: {text}")
        if percent > 100:
            raise ThresholdError(f"eviction percentage threshold {signal} must be <= 100%: {text}")
        return Amount(share=percent / 100)
    try:
        number = quantity.parse(text).value()
    except ValueError as error:
        raise ThresholdError(f"{signal}: {error}") from None
    if number < 0:
        raise ThresholdError(f"eviction threshold {signal} must be positive: {text}")
    return Amount(number)


def parse(
    hard: Mapping[str, str],
    soft: Mapping[str, str] | None = None,
    soft_grace: Mapping[str, str] | None = None,
    reclaim: Mapping[str, str] | None = None,
) -> tuple[Threshold, ...]:
    """All thresholds in force. Raises ThresholdError."""
    soft, soft_grace, reclaim = soft or {}, soft_grace or {}, reclaim or {}
    for listed in (hard, soft, soft_grace, reclaim):
        for signal in listed:
            if signal not in CONFIGURABLE:
                raise ThresholdError(f"unsupported eviction signal {signal}")
    least = {signal: amount(signal, text) or Amount() for signal, text in reclaim.items()}
    graces = {signal: _grace(signal, text) for signal, text in soft_grace.items()}
    made = [_threshold(signal, text, 0.0, least) for signal, text in hard.items()]
    for signal, text in soft.items():
        if signal not in graces:
            raise ThresholdError(f"grace period must be specified for the soft eviction threshold {signal}")
        made.append(_threshold(signal, text, graces[signal], least))
    found = [each for each in made if each is not None]
    if memory := next((each for each in found if each.signal == MEMORY and each.hard), None):
        # pods together must not use more than was promised to them, however much the rest of the node leaves free
        found.append(Threshold(ALLOCATABLE_MEMORY, memory.amount, 0.0, memory.reclaim))
    return tuple(found)


def _grace(signal: str, text: str) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise ThresholdError(f"{signal}: {error}") from None
    if seconds <= 0:
        raise ThresholdError(f"invalid eviction grace period specified: {text}, must be a positive value")
    return seconds


def _threshold(signal: str, text: str, grace: float, reclaim: Mapping[str, Amount]) -> Threshold | None:
    least = amount(signal, text)
    return Threshold(signal, least, grace, reclaim.get(signal, Amount())) if least is not None else None


def reserved(thresholds: tuple[Threshold, ...], capacity: Mapping[str, int]) -> dict[str, int]:
    """What hard thresholds keep from pods of memory and ephemeral storage (bytes): the node never promises it."""
    kept: dict[str, int] = {}
    for each in thresholds:
        resource = {MEMORY: "memory", NODEFS: "ephemeral-storage"}.get(each.signal)
        if each.hard and resource is not None:
            kept[resource] = each.amount.of(capacity.get(resource, 0))
    return kept
