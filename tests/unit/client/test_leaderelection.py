import asyncio
import random

import orjson
import pytest

from apimachinery import errors
from apimachinery.resources import PODS
from client.fake import FAKE_CONFIG, Reply, failure
from client.leaderelection import LeaderElector, LeadershipLostError, Timing
from client.rest import Client
from client.transport import TransportError
from component.clock import FakeClock


class LeaseServer:
    """A transport that keeps one Lease with optimistic concurrency; ``down`` makes it unreachable."""

    def __init__(self):
        self.lease, self.version, self.down, self.writes = None, 0, False, 0

    async def send(self, request):
        await asyncio.sleep(0)
        if self.down:
            raise TransportError("connection refused", sent=False)
        if request.method == "GET":
            return Reply(body=self.lease) if self.lease else failure(errors.not_found("leases", "x"))
        obj = orjson.loads(request.body)
        if request.method == "POST" and self.lease:
            return failure(errors.already_exists("leases", "x"))
        if request.method == "PUT" and obj["metadata"].get("resourceVersion") != self.lease["metadata"]["resourceVersion"]:
            return failure(errors.conflict("leases", "x", errors.OPTIMISTIC_LOCK))
        self.version += 1
        self.writes += 1
        self.lease = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}}
        return Reply(body=self.lease)

    async def close(self):
        return

    @property
    def holder(self):
        return self.lease["spec"]["holderIdentity"]


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def server():
    return LeaseServer()


@pytest.fixture
async def candidate(server, clock):
    """Starts a candidate; gives its task, and a list that shows whether it leads."""
    tasks = []

    def start(identity, transport=None):
        client = Client(FAKE_CONFIG, clock=clock, transport=transport or server)
        elector = LeaderElector(client, "x", identity=identity, rng=random.Random(1))
        state = []

        async def lead():
            state.append("began")
            try:
                await asyncio.Event().wait()
            finally:
                state.append("ended")

        task = asyncio.ensure_future(elector.run(lead))
        tasks.append(task)
        return task, state

    yield start
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_one_leads_and_renews_while_the_other_waits(candidate, server, clock):
    _, first = candidate("one")
    await clock.settle()
    _, second = candidate("two")
    await clock.advance(60)
    assert (first, second) == (["began"], [])
    assert server.holder == "one"
    assert server.writes >= 25
    spec = server.lease["spec"]
    assert (spec["leaseDurationSeconds"], spec["leaseTransitions"]) == (15, 0)
    assert spec["renewTime"] > spec["acquireTime"]


async def test_a_leader_that_stops_lets_the_next_in_at_once(candidate, server, clock):
    task, first = candidate("one")
    await clock.settle()
    _, second = candidate("two")
    await clock.settle()
    task.cancel()
    await clock.settle()
    assert server.holder == ""
    assert first == ["began", "ended"]
    await clock.advance(5)
    assert second == ["began"]
    assert server.lease["spec"]["leaseTransitions"] == 1


async def test_a_dead_leader_is_replaced_after_the_lease_by_the_observers_clock(candidate, server, clock):
    stale = {"holderIdentity": "dead", "leaseDurationSeconds": 15, "renewTime": "2099-01-01T00:00:00.000000Z"}
    server.lease = {"metadata": {"name": "x", "namespace": "kube-system", "resourceVersion": "0"}, "spec": stale}
    _, state = candidate("one")
    await clock.advance(14.9)
    assert state == []
    await clock.advance(5)
    assert state == ["began"]


async def test_a_candidate_started_before_its_server_leads_soon_after_it_answers(candidate, server, clock):
    server.down = True
    _, state = candidate("one")
    await clock.advance(3)
    server.down = False
    await clock.advance(3)
    assert state == ["began"]


async def test_a_leader_cut_off_stops_before_others_may_begin(candidate, server, clock):
    task, state = candidate("one")
    await clock.advance(3)
    server.down = True
    began = clock.monotonic()
    while not task.done() and clock.monotonic() < 100:
        await clock.advance(0.5)
    assert state == ["began", "ended"]
    assert clock.monotonic() - began < 15
    with pytest.raises(LeadershipLostError, match="lost the lease kube-system/x"):
        await task


async def test_a_leader_robbed_of_its_lease_stops(candidate, server, clock):
    task, state = candidate("one")
    await clock.settle()
    server.lease["metadata"]["resourceVersion"] = "99"
    server.lease = {**server.lease, "spec": {**server.lease["spec"], "holderIdentity": "thief"}}
    await clock.advance(5)
    assert state == ["began", "ended"]
    with pytest.raises(LeadershipLostError):
        await task
    assert server.holder == "thief"


async def test_a_short_outage_is_survived(candidate, server, clock):
    _, state = candidate("one")
    await clock.advance(3)
    server.down = True
    await clock.advance(6)
    server.down = False
    await clock.advance(30)
    assert state == ["began"]
    assert server.holder == "one"


async def test_work_that_fails_releases_the_lease_and_raises(server, clock):
    client = Client(FAKE_CONFIG, clock=clock, transport=server)

    async def lead():
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await LeaderElector(client, "x", identity="one").run(lead)
    assert server.holder == ""


async def test_work_that_ends_ends_the_run(server, clock):
    client = Client(FAKE_CONFIG, clock=clock, transport=server)
    await LeaderElector(client, "x", identity="one").run(lambda: asyncio.sleep(0))
    assert server.holder == ""


@pytest.mark.parametrize(
    ("timing", "text"),
    [((10, 10, 2), "leaseDuration"), ((15, 2, 2), "renewDeadline"), ((15, 10, 0), "retryPeriod")],
    ids=["lease", "renew", "retry"],
)
def test_timings_that_cannot_work_are_refused(timing, text):
    with pytest.raises(ValueError, match=text):
        Timing(*timing)


class TestFencing:
    """A leader whose process or machine was stopped wakes up with work in its hands, and somebody else leads."""

    @pytest.fixture
    async def woken(self, server, clock):
        """Seconds that pass while nothing of the elector runs, and an elector that led before."""
        asleep = [0.0]
        client = Client(FAKE_CONFIG, clock=clock, transport=server)
        elector = LeaderElector(client, "x", identity="one", clock=clock, elapsed=lambda: clock.monotonic() + asleep[0])
        leading = asyncio.ensure_future(elector.run(asyncio.Event().wait))
        await clock.settle()
        yield asleep, elector
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)

    async def test_it_changes_nothing_before_it_has_renewed(self, woken, server, clock):
        asleep, elector = woken
        elector.check()
        asleep[0] = 11.0
        elector.check()
        asleep[0] = 13.0  # others may lead after 15
        with pytest.raises(LeadershipLostError, match="may be another's by now"):
            elector.check()
        await clock.advance(3)  # nobody took it: renewed
        elector.check()

    async def test_what_it_sends_is_held_back_and_what_it_reads_is_not(self, woken, server, clock):
        asleep, elector = woken
        work = Client(FAKE_CONFIG, clock=clock, transport=server)
        work.guard = elector.check
        asleep[0] = 20.0
        server.lease["spec"] |= {"holderIdentity": "two"}
        server.lease["metadata"] |= {"resourceVersion": "77"}
        writes = server.writes
        for call in (
            lambda: work.create(PODS, {"metadata": {"name": "p", "namespace": "default"}}),
            lambda: work.patch(PODS, "p", {}, namespace="default"),
            lambda: work.delete(PODS, "p", "default"),
        ):
            with pytest.raises(LeadershipLostError):
                await call()
        assert server.writes == writes
        assert (await work.get(PODS, "p", "default"))["spec"]["holderIdentity"] == "two"
