"""Asking a server what it has: a daemon that starts together with it waits, and takes only a clear no for one."""

import asyncio

from apimachinery.errors import forbidden, not_found
from apimachinery.resources import RESOURCE_CLAIMS
from client.fake import FAKE_CONFIG, FakeTransport, Reply, failure
from client.rest import Client
from client.served import serves
from client.transport import TransportError
from component.clock import FakeClock

PATH = "GET /apis/resource.k8s.io/v1"
HAS = Reply(body={"resources": [{"name": "deviceclasses"}, {"name": "resourceclaims"}]})


async def test_a_server_that_is_not_up_yet_is_waited_for() -> None:
    transport, clock = FakeTransport(), FakeClock()
    refused = TransportError("cannot connect", sent=False)
    transport.on(PATH, *[refused] * 20, HAS)
    asking = asyncio.create_task(serves(Client(FAKE_CONFIG, transport=transport, clock=clock), RESOURCE_CLAIMS))

    await clock.advance(1)
    assert not asking.done()
    await clock.advance(30)
    assert await asking


async def test_only_a_clear_no_is_one() -> None:
    for answer, said in (
        (HAS, True),
        (Reply(body={"resources": [{"name": "deviceclasses"}]}), False),
        (failure(not_found("pages", "x")), False),
        (failure(forbidden("not yet")), True),
    ):
        transport = FakeTransport()
        transport.on(PATH, answer)
        assert await serves(Client(FAKE_CONFIG, transport=transport), RESOURCE_CLAIMS) is said
