"""Times as Kubernetes writes them: ``Time`` to the second, ``MicroTime`` to the microsecond, always UTC."""

from datetime import UTC, datetime


def format_time(when: datetime) -> str:
    """RFC 3339 with seconds, as ``metav1.Time``: ``2026-11-30T11:16:38Z``."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time(when: datetime) -> str:
    """RFC 3339 with microseconds, as ``metav1.MicroTime``: ``2026-11-30T11:16:38.000001Z``."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: str) -> datetime:
    """Read RFC 3339 with or without a fraction (nanoseconds are cut). Raises ValueError otherwise."""
    if "T" not in text or (not text.endswith(("Z", "z")) and text[-6:-5] not in ("+", "-")):
        raise ValueError(f"parsing time {text!r} as RFC 3339")
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except OverflowError:  # a time zone moves it past the years that there are
        raise ValueError(f"parsing time {text!r} as RFC 3339: out of range") from None
