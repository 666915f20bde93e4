"""What was programmed when: a bounded ring that ``/debug/programmed`` shows and ``pybernetes trace`` reads."""

from collections import deque
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apimachinery.times import format_micro_time

CAPACITY = 1000


@dataclass(frozen=True, slots=True)
class Entry:
    """One service whose rules changed; ``seconds`` is how long the sync took that changed them."""

    service: str
    programmed: datetime
    seconds: float
    endpoints: int


class Journal:
    """The last entries, oldest first."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._entries: deque[Entry] = deque(maxlen=capacity)

    def note(self, service: str, programmed: datetime, seconds: float, endpoints: int) -> None:
        self._entries.append(Entry(service, programmed, seconds, endpoints))

    def as_json(self) -> list[dict[str, Any]]:
        return [
            {
                "service": entry.service,
                "programmed": format_micro_time(entry.programmed),
                "seconds": round(entry.seconds, 6),
                "endpoints": entry.endpoints,
            }
            for entry in self._entries
        ]
