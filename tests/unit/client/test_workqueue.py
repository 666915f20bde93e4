import asyncio

import pytest

from client.ratelimit import BucketLimiter, ExponentialLimiter, MaxOf, TokenBucket, default_limiter
from client.workqueue import ShutDownError, WorkQueue
from component.clock import FakeClock
from component.metrics import Registry


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def queue(clock):
    return WorkQueue("test", clock, ExponentialLimiter())


async def take(queue, count):
    return [await asyncio.wait_for(queue.get(), 1) for _ in range(count)]


async def test_keys_come_out_in_order_and_once(queue):
    for key in ("a", "b", "a", "c", "b"):
        queue.add(key)
    assert await take(queue, 3) == ["a", "b", "c"]
    assert len(queue) == 0


async def test_a_key_in_work_is_not_given_to_a_second_worker(queue):
    queue.add("a")
    await queue.get()
    queue.add("a")
    second = asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)
    assert not second.done()
    queue.done("a")
    assert await second == "a"


async def test_a_key_that_was_not_added_again_does_not_return(queue):
    queue.add("a")
    queue.done(await queue.get())
    assert len(queue) == 0


async def test_waiting_workers_are_served_in_order(queue):
    workers = [asyncio.ensure_future(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    for key in "abc":
        queue.add(key)
    assert await asyncio.gather(*workers) == ["a", "b", "c"]


async def test_a_worker_cancelled_after_its_wake_up_loses_no_key(queue):
    first, second = (asyncio.ensure_future(queue.get()) for _ in range(2))
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    assert await second == "a"
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_a_delayed_key_waits(queue, clock):
    queue.add_after("a", 5)
    await clock.advance(4.9)
    assert len(queue) == 0
    await clock.advance(0.2)
    assert await take(queue, 1) == ["a"]


async def test_the_earliest_of_several_delays_counts_and_only_it(queue, clock):
    queue.add_after("a", 10)
    queue.add_after("a", 2)
    queue.add_after("a", 5)
    await clock.advance(3)
    queue.done((await take(queue, 1))[0])
    await clock.advance(20)
    assert len(queue) == 0


async def test_delays_of_several_keys_share_one_timer(queue, clock):
    for seconds in (3, 1, 2):
        queue.add_after(seconds, seconds)
    await clock.advance(10)
    assert await take(queue, 3) == [1, 2, 3]
    assert clock.next_due() is None


async def test_failures_wait_longer_each_time_until_forgotten(queue, clock):
    waits = []
    for _ in range(3):
        queue.add_rate_limited("a")
        waits.append(clock.next_due() - clock.monotonic())
        await clock.advance(1)
        queue.done(await queue.get())
    assert waits == pytest.approx([0.005, 0.01, 0.02])
    assert queue.retries("a") == 3
    queue.forget("a")
    assert queue.retries("a") == 0


async def test_shutdown_hands_out_what_is_left_and_refuses_more(queue, clock):
    queue.add("a")
    queue.add_after("b", 1)
    queue.shut_down()
    queue.add("c")
    await clock.advance(2)
    assert await queue.get() == "a"
    with pytest.raises(ShutDownError):
        await queue.get()


async def test_shutdown_wakes_all_workers(queue):
    workers = [asyncio.ensure_future(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.shut_down()
    outcomes = await asyncio.gather(*workers, return_exceptions=True)
    assert all(isinstance(outcome, ShutDownError) for outcome in outcomes)


async def test_draining_waits_for_work_in_hand(queue):
    queue.add("a")
    await queue.get()
    drain = asyncio.ensure_future(queue.shut_down_with_drain())
    await asyncio.sleep(0)
    assert not drain.done()
    queue.done("a")
    await drain


async def test_metrics_count_what_happens(clock):
    registry = Registry(process=False)
    queue = WorkQueue("test", clock, metrics=registry)
    queue.add("a")
    queue.add("a")
    await clock.advance(2)
    queue.add_rate_limited(await queue.get())
    queue.done("a")
    text = registry.expose().decode()
    assert 'workqueue_adds_total{name="test"} 1.0' in text
    assert 'workqueue_retries_total{name="test"} 1.0' in text
    assert 'workqueue_queue_duration_seconds_sum{name="test"} 2.0' in text
    assert 'workqueue_depth{name="test"} 0.0' in text


def test_exponential_delay_stops_at_its_cap():
    limiter = ExponentialLimiter(0.005, 1000)
    delays = [limiter.when("a") for _ in range(2000)]
    assert delays[:4] == [0.005, 0.01, 0.02, 0.04]
    assert delays[-1] == 1000


async def test_a_bucket_gives_its_burst_and_then_its_rate(clock):
    bucket = TokenBucket(10, 2, clock)
    assert [bucket.reserve() for _ in range(4)] == pytest.approx([0, 0, 0.1, 0.2])
    await clock.advance(10)
    assert bucket.try_take()
    assert bucket.try_take()
    assert not bucket.try_take()


def test_the_longest_wait_counts(clock):
    limiter = MaxOf([ExponentialLimiter(1), BucketLimiter(TokenBucket(1, 1, clock))])
    assert [limiter.when("a"), limiter.when("b")] == [1, 1]
    assert limiter.retries("a") == 1
    limiter.forget("a")
    assert limiter.retries("a") == 0


def test_defaults_are_client_gos(clock):
    limiter = default_limiter(clock)
    assert limiter.when("a") == 0.005
    for number in range(99):
        limiter.when(number)
    assert limiter.when("z") == pytest.approx(0.1)
