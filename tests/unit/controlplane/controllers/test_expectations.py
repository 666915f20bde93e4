from component.clock import FakeClock
from controlplane.controllers.lib.expectations import Expectations


async def test_counts_down_and_lapses() -> None:
    clock = FakeClock()
    expectations = Expectations(clock)
    assert expectations.satisfied("ns/web")
    expectations.expect_creations("ns/web", 2)
    expectations.creation_observed("ns/web")
    assert not expectations.satisfied("ns/web")
    expectations.creation_observed("ns/web")
    assert expectations.satisfied("ns/web")
    expectations.expect_deletions("ns/web", ["a", "b"])
    expectations.deletion_observed("ns/web", "a")
    expectations.deletion_observed("ns/web", "a")
    assert not expectations.satisfied("ns/web")
    await clock.advance(301)
    assert expectations.satisfied("ns/web")
