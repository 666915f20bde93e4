"""Which API server gets the next connection. Pure state: ``health`` reports into it, ``relay`` asks it.

Least connections, in the order of the list among equals. A server that says it is shutting down gets no new connection; one
that does not answer loses those it has, as a stopped machine never says goodbye.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum


class State(IntEnum):
    """Better ones first. A server nobody has asked yet may be tried."""

    READY = 0
    UNKNOWN = 1
    DRAINING = 2  # it answers, and says that it is not ready: it shuts down, or has no store just now
    DEAD = 3  # it does not answer


@dataclass(eq=False, slots=True)
class Server:
    """``closers`` end the connections that go there."""

    host: str
    port: int
    state: State = State.UNKNOWN
    closers: set[Callable[[], None]] = field(default_factory=set)
    served: int = 0

    @property
    def name(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Servers:
    def __init__(self, addresses: Sequence[tuple[str, int]]) -> None:
        self.all = [Server(host, port) for host, port in addresses]

    def candidates(self) -> list[Server]:
        """Whom to try, in this order. Even the dead are tried, at the end: what is known of them may be old."""
        return sorted(self.all, key=lambda server: (server.state, len(server.closers)))

    def report(self, server: Server, state: State) -> bool:
        """What a look at its health found; whether that is news."""
        news, server.state = state != server.state, state
        if state == State.DEAD:
            self.drop(server)
        return news

    @staticmethod
    def drop(server: Server) -> None:
        """End its connections: their clients come again and are sent elsewhere."""
        for close in list(server.closers):
            close()

    @property
    def any_ready(self) -> bool:
        return any(server.state == State.READY for server in self.all)


def parse_address(text: str) -> tuple[str, int]:
    """``HOST:PORT`` or ``[v6]:PORT``. Raises ValueError."""
    host, colon, port = text.strip().removeprefix("https://").rstrip("/").rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{text!r} is not an address; write HOST:PORT")
    return host, int(port)
