"""How many pulls may begin."""

from component.clock import FakeClock
from node.kubelet.images.throttle import Throttle


async def test_a_burst_then_a_rate() -> None:
    clock = FakeClock()
    throttle = Throttle(clock, 2, 3)
    assert [throttle.take() for _ in range(4)] == [True, True, True, False]
    await clock.advance(0.5)
    assert [throttle.take() for _ in range(2)] == [True, False]
    await clock.advance(100)
    assert [throttle.take() for _ in range(4)] == [True, True, True, False]
