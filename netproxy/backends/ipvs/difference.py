"""From how a virtual server is to how it should be: the fewest calls. Pure; called by ``backend``.

A real server that is wanted no more gets weight 0: no new connection, while those it has go on (upstream's graceful termination).
UDP and SCTP have no such end: there it goes at once.
"""

from collections.abc import Iterable, Mapping

from netproxy.backends.ipvs.render import Wanted
from netproxy.kernel.ipvs import Call, Held, Real, RealState, Server

WEIGHT = 1


def difference(server: Server, held: Held | None, wanted: Wanted | None) -> list[Call]:
    """The calls for one virtual server, in their order."""
    if wanted is None:
        return [] if held is None else [Call("delete server", server)]
    calls: list[Call] = []
    if held is None:
        calls.append(Call("add server", server, wanted.settings))
    elif held.settings != wanted.settings:
        calls.append(Call("set server", server, wanted.settings))
    reals = held.reals if held else {}
    for real in sorted(wanted.reals):
        if real not in reals:
            calls.append(Call("add real", server, real=real, weight=WEIGHT))
        elif reals[real].weight != WEIGHT:
            calls.append(Call("set real", server, real=real, weight=WEIGHT))
    for real in sorted(reals.keys() - wanted.reals):
        if server.protocol != "TCP":
            calls.append(Call("delete real", server, real=real))
        elif reals[real].weight != 0:
            calls.append(Call("set real", server, real=real, weight=0))
    return calls


def retiring(server: Server, held: Held | None, wanted: Wanted | None) -> frozenset[Real]:
    """The real servers that have weight 0 after those calls."""
    if held is None or wanted is None or server.protocol != "TCP":
        return frozenset()
    return frozenset(held.reals.keys() - wanted.reals)


def written(wanted: Wanted | None, leaving: Iterable[Real]) -> Held | None:
    """A virtual server as the kernel has it after the calls for ``wanted``."""
    if wanted is None:
        return None
    reals: Mapping[Real, RealState] = {
        **dict.fromkeys(leaving, RealState(0)),
        **dict.fromkeys(wanted.reals, RealState(WEIGHT)),
    }
    return Held(wanted.settings, reals)
