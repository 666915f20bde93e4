"""Audit events that are too large to send: first without their bodies, then not at all; batches no larger than a bound. Pure.

Follows upstream's ``plugin/pkg/audit/truncate``. Used by ``sinks`` and ``webhook`` where flags ask for it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from apimachinery.codecs.json import encode

Event = Mapping[str, Any]
TRUNCATED = "audit.k8s.io/truncated"


@dataclass(frozen=True, slots=True)
class Bounds:
    """In bytes of JSON."""

    event: int = 100 << 10
    batch: int = 10 << 20


def fitted(event: Event, most: int) -> bytes | None:
    """The event as JSON, its bodies left out if it has to be; None when that does not help either."""
    whole = encode(event)
    if len(whole) <= most:
        return whole
    kept = {name: value for name, value in event.items() if name not in ("requestObject", "responseObject")}
    kept["annotations"] = {**(event.get("annotations") or {}), TRUNCATED: "true"}
    short = encode(kept)
    return short if len(short) <= most else None


def batches(events: Iterable[bytes], most: int) -> Iterator[list[bytes]]:
    """In order, each batch as large as may be."""
    batch: list[bytes] = []
    size = 0
    for event in events:
        if batch and size + len(event) > most:
            yield batch
            batch, size = [], 0
        batch.append(event)
        size += len(event)
    if batch:
        yield batch
