"""Ports for servers: kept from everybody but the server they are for."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.netns import own_network_namespace
from tests.support.ports import free_port

pytestmark = pytest.mark.root

_GIVEN = 40


@pytest.fixture(autouse=True)
def few_ports() -> Iterator[None]:
    """A network namespace in which the kernel has few ports to give, so that it meets those that are kept."""
    with own_network_namespace():
        Path("/proc/sys/net/ipv4/ip_local_port_range").write_text(f"40000 {40000 + _GIVEN - 1}")
        yield


def test_nobody_else_is_given_a_port_that_is_kept() -> None:
    kept = {free_port() for _ in range(_GIVEN // 2)}
    assert len(kept) == _GIVEN // 2
    with ExitStack() as open_ones, socket.create_server(("127.0.0.1", 9000)) as server:
        bound = [open_ones.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(_GIVEN // 4)]
        connected = [open_ones.enter_context(socket.create_connection(server.getsockname())) for _ in range(_GIVEN // 4)]
        assert not kept & {each.getsockname()[1] for each in (*bound, *connected)}


@pytest.mark.parametrize("address", ["127.0.0.1", ""])
def test_the_server_that_it_is_for_takes_it_and_takes_it_again(address: str) -> None:
    port = free_port()
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        with socket.create_server((address, port)), socket.create_connection(("127.0.0.1", port)):
            pass
