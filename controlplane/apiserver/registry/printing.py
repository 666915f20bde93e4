"""Text forms that several kinds print in ``kubectl get``: ages and human durations, as upstream writes them."""

from datetime import datetime

from apimachinery.times import parse_time

UNKNOWN = "<unknown>"


def human_duration(seconds: float) -> str:
    """A short duration such as ``45s``, ``3m15s``, ``5h10m``, ``2d4h``, ``400d``, ``2y30d`` (k8s.io/apimachinery duration)."""
    total = int(seconds)
    if total < -1:
        return "<invalid>"
    if total < 0:
        return "0s"
    if total < 120:
        return f"{total}s"
    minutes = total // 60
    if minutes < 10:
        rest = total % 60
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours = total // 3600
    if hours < 8:
        rest = minutes % 60
        return f"{hours}h{rest}m" if rest else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if hours < 192:
        rest = hours % 24
        return f"{days}d{rest}h" if rest else f"{days}d"
    if hours < 24 * 365 * 2:
        return f"{days}d"
    years = days // 365
    if hours < 24 * 365 * 8:
        rest = days % 365
        return f"{years}y{rest}d" if rest else f"{years}y"
    return f"{years}y"


def age(timestamp: str | None, now: datetime) -> str:
    """Time since an RFC 3339 ``timestamp``, or ``<unknown>`` without one."""
    if not timestamp:
        return UNKNOWN
    return human_duration((now - parse_time(timestamp)).total_seconds())
