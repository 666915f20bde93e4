"""Cron schedules: whether one is well formed. The CronJob controller computes times from the same grammar."""

import re
import zoneinfo

_MACROS = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})
_FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day of month", 1, 31), ("month", 1, 12), ("day of week", 0, 6))
_MONTHS = {
    name: number
    for number, name in enumerate(["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1)
}
_DAYS = {name: number for number, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}
_EVERY_RE = re.compile(r"@every ([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+")


def is_zone(name: str) -> bool:
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def problem(schedule: str) -> str:
    """What is wrong with ``schedule``, or an empty string."""
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        zone, _, schedule = schedule.partition("=")[2].partition(" ")
        if not is_zone(zone):
            return f"provided bad location {zone}: unknown time zone {zone}"
        schedule = schedule.strip()
    if schedule.startswith("@"):
        known = schedule in _MACROS or _EVERY_RE.fullmatch(schedule)
        return "" if known else f"unrecognized descriptor: {schedule}"
    parts = schedule.split()
    if len(parts) != len(_FIELDS):
        return f"expected exactly 5 fields, found {len(parts)}: [{' '.join(parts)}]"
    for part, (name, low, high) in zip(parts, _FIELDS, strict=True):
        words = _MONTHS if name == "month" else _DAYS if name == "day of week" else {}
        for item in part.split(","):
            wrong = _item_problem(item, low, high, words)
            if wrong:
                return wrong
    return ""


def _item_problem(item: str, low: int, high: int, words: dict[str, int]) -> str:
    span, slash, step = item.partition("/")
    if slash and (not step.isdecimal() or not int(step)):
        return f"step of range should be a positive number: {item}"
    if span in ("*", "?"):
        return ""
    ends = [words.get(end.lower(), -1) if not end.isdecimal() else int(end) for end in span.split("-")]
    if len(ends) > 2 or any(end < 0 for end in ends):
        wrong = next(end for end, number in zip(span.split("-"), ends, strict=True) if number < 0) if len(ends) < 3 else span
        return f'failed to parse int from {wrong}: strconv.Atoi: parsing "{wrong}": invalid syntax'
    if ends[0] < low:
        return f"beginning of range ({ends[0]}) below minimum ({low}): {item}"
    if ends[-1] > high:
        return f"end of range ({ends[-1]}) above maximum ({high}): {item}"
    if ends[0] > ends[-1]:
        return f"beginning of range ({ends[0]}) beyond end of range ({ends[-1]}): {item}"
    return ""
