"""Whom the balancer sends a connection to."""

import pytest

from node.balancer.servers import Server, Servers, State, parse_address


def three(*states: State) -> Servers:
    servers = Servers([(name, 6443) for name in "abc"])
    for server, state in zip(servers.all, states, strict=True):
        server.state = state
    return servers


def order(servers: Servers) -> str:
    return "".join(server.host for server in servers.candidates())


def connect(server: Server, times: int) -> list[str]:
    ended: list[str] = []
    for number in range(times):
        server.closers.add(lambda number=number: ended.append(f"{server.host}{number}"))
    return ended


def test_the_first_of_equals_goes_first() -> None:
    assert order(three(State.READY, State.READY, State.READY)) == "abc"


def test_the_least_busy_goes_first() -> None:
    servers = three(State.READY, State.READY, State.READY)
    connect(servers.all[0], 2)
    connect(servers.all[1], 1)
    assert order(servers) == "cba"


def test_better_states_go_before_fewer_connections_and_nobody_is_left_out() -> None:
    servers = three(State.DEAD, State.DRAINING, State.READY)
    connect(servers.all[2], 9)
    assert order(servers) == "cba"


def test_a_dead_server_loses_its_connections_a_draining_one_keeps_them() -> None:
    servers = three(State.READY, State.READY, State.READY)
    kept, ended = connect(servers.all[0], 2), connect(servers.all[1], 2)
    assert servers.report(servers.all[0], State.DRAINING)
    assert servers.report(servers.all[1], State.DEAD)
    assert not servers.report(servers.all[1], State.DEAD)
    assert (len(kept), len(ended)) == (0, 4)  # told again while it is dead: late connections end, too
    assert servers.any_ready
    servers.report(servers.all[2], State.DEAD)
    assert not servers.any_ready


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.0.0.1:6443", ("10.0.0.1", 6443)),
        ("https://api.example:443/", ("api.example", 443)),
        ("[fd00::1]:6443", ("fd00::1", 6443)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "10.0.0.1", "host:", ":6443", "host:0", "host:70000", "host:http"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="is not an address"):
        parse_address(text)
