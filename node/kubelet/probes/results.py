"""What probing found, counted against thresholds. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Kind(Enum):
    """The three probes; the value is how events name it."""

    LIVENESS = "Liveness"
    READINESS = "Readiness"
    STARTUP = "Startup"

    @property
    def field(self) -> str:
        return f"{self.value.lower()}Probe"


class Outcome(Enum):
    SUCCESS = "success"
    FAILURE = "failure"
    UNKNOWN = "unknown"  # the probe itself did not work: changes nothing


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of a probe. ``refused`` says that nothing listened, so the container never saw it."""

    outcome: Outcome
    output: str = ""
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """The timing of a probe, with the API's defaults."""

    initial_delay: float = 0.0
    period: float = 10.0
    timeout: float = 1.0
    success_threshold: int = 1
    failure_threshold: int = 3

    @classmethod
    def of(cls, probe: Mapping[str, Any]) -> "Settings":
        return cls(
            float(probe.get("initialDelaySeconds") or 0),
            float(probe.get("periodSeconds") or 10),
            float(probe.get("timeoutSeconds") or 1),
            int(probe.get("successThreshold") or 1),
            int(probe.get("failureThreshold") or 3),
        )


class Streak:
    """Consecutive equal outcomes; a verdict changes only when its threshold is met."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._last: Outcome | None = None
        self._run = 0

    def add(self, outcome: Outcome) -> Outcome | None:
        """The outcome that now stands, or None while no threshold is met."""
        if outcome is Outcome.UNKNOWN:
            return None
        self._run = self._run + 1 if outcome is self._last else 1
        self._last = outcome
        needed = self._settings.success_threshold if outcome is Outcome.SUCCESS else self._settings.failure_threshold
        return outcome if self._run >= needed else None
