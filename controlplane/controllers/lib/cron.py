"""When a cron schedule is due. Pure: from a schedule and a moment to the next one. Used by cronjob.

Five fields (minute, hour, day of month, month, day of week) with ``*``, lists, ranges, steps and names; the ``@`` words;
``@every`` with a Go duration. As in cron, when both day fields are restricted either of them matches.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from component.flags import parse_duration

_WORDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_HORIZON_YEARS = 5


@dataclass(frozen=True, slots=True)
class Schedule:
    """A parsed schedule. ``every`` is set for ``@every`` alone."""

    minutes: frozenset[int] = frozenset()
    hours: frozenset[int] = frozenset()
    days: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    weekdays: frozenset[int] = frozenset()
    any_day: bool = False
    any_weekday: bool = False
    every: float = 0.0

    def next_after(self, moment: datetime) -> datetime | None:
        """The first due minute after ``moment``, in its time zone; None if there is none within five years."""
        if self.every:
            return moment.replace(microsecond=0) + timedelta(seconds=max(1.0, self.every))
        due = moment.replace(second=0, microsecond=0) + timedelta(minutes=1)
        limit = due.year + _HORIZON_YEARS
        while due.year <= limit:
            if due.month not in self.months:
                due = _first_of_next_month(due)
            elif not self._on_day(due):
                due = due.replace(hour=0, minute=0) + timedelta(days=1)
            elif due.hour not in self.hours:
                due = due.replace(minute=0) + timedelta(hours=1)
            elif due.minute not in self.minutes:
                due += timedelta(minutes=1)
            else:
                return due
        return None

    def _on_day(self, moment: datetime) -> bool:
        in_month = moment.day in self.days
        in_week = moment.isoweekday() % 7 in self.weekdays
        if self.any_day or self.any_weekday:
            return in_month and in_week
        return in_month or in_week


def _first_of_next_month(moment: datetime) -> datetime:
    year, month = (moment.year + 1, 1) if moment.month == 12 else (moment.year, moment.month + 1)
    return moment.replace(year=year, month=month, day=1, hour=0, minute=0)


def parse(text: str) -> Schedule:
    """Raises ValueError for what is no schedule."""
    text = text.strip()
    if text.startswith("@every "):
        return Schedule(every=parse_duration(text.removeprefix("@every ").strip()))
    fields = _WORDS.get(text, text).split()
    if len(fields) != 5:
        raise ValueError(f"expected exactly 5 fields, found {len(fields)}: {text}")
    minute, hour, day, month, weekday = fields
    return Schedule(
        _field(minute, 0, 59),
        _field(hour, 0, 23),
        _field(day, 1, 31),
        _field(month, 1, 12, _MONTHS, 1),
        frozenset(number % 7 for number in _field(weekday, 0, 7, _DAYS, 0)),
        day[0] in "*?",
        weekday[0] in "*?",
    )


def _field(text: str, low: int, high: int, names: tuple[str, ...] = (), first: int = 0) -> frozenset[int]:
    found: set[int] = set()
    for item in text.split(","):
        span, slash, step = item.partition("/")
        start, dash, end = span.partition("-")
        if span in ("*", "?"):
            bounds = (low, high)
        else:
            begin = _number(start, names, first)
            bounds = (begin, _number(end, names, first) if dash else high if slash else begin)
        if not low <= bounds[0] <= bounds[1] <= high:
            raise ValueError(f"{item} is not within {low}-{high}")
        found.update(range(bounds[0], bounds[1] + 1, int(step) if slash else 1))
    return frozenset(found)


def _number(text: str, names: tuple[str, ...], first: int) -> int:
    if text.lower() in names:
        return names.index(text.lower()) + first
    return int(text)
