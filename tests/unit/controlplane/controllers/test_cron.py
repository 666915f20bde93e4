from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from controlplane.controllers.lib import cron


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        ("* * * * *", "2026-01-01T00:00:30", "2026-01-01T00:01:00"),
        ("*/15 * * * *", "2026-01-01T00:15:00", "2026-01-01T00:30:00"),
        ("5 4 * * *", "2026-01-01T04:05:00", "2026-01-02T04:05:00"),
        ("0 0 1 * *", "2026-01-31T10:00:00", "2026-02-01T00:00:00"),
        ("0 12 * * mon-fri", "2026-01-02T13:00:00", "2026-01-05T12:00:00"),
        ("0 0 * * 7", "2026-01-01T00:00:00", "2026-01-04T00:00:00"),
        ("0 0 13 * fri", "2026-01-01T00:00:00", "2026-01-02T00:00:00"),
        ("0 0 29 feb *", "2026-01-01T00:00:00", "2028-02-29T00:00:00"),
        ("10-20/5 3 * jun ?", "2026-01-01T00:00:00", "2026-06-01T03:10:00"),
        ("30/10 * * * *", "2026-01-01T00:31:00", "2026-01-01T00:40:00"),
        ("@hourly", "2026-01-01T00:00:00", "2026-01-01T01:00:00"),
        ("@weekly", "2026-01-01T00:00:00", "2026-01-04T00:00:00"),
        ("@every 90s", "2026-01-01T00:00:00", "2026-01-01T00:01:30"),
    ],
)
def test_next(schedule: str, after: str, expected: str) -> None:
    moment = cron.parse(schedule).next_after(datetime.fromisoformat(after).replace(tzinfo=UTC))
    assert moment == datetime.fromisoformat(expected).replace(tzinfo=UTC)


def test_never() -> None:
    assert cron.parse("0 0 31 feb *").next_after(datetime(2026, 1, 1, tzinfo=UTC)) is None


def test_time_zones() -> None:
    moment = cron.parse("0 9 * * *").next_after(datetime(2026, 7, 1, 12, tzinfo=ZoneInfo("Europe/Berlin")))
    assert moment is not None
    assert moment.astimezone(UTC) == datetime(2026, 7, 2, 7, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "* * * *", "60 * * * *", "5-1 * * * *", "@often", "a * * * *"])
def test_refusals(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - several texts
        cron.parse(text)
