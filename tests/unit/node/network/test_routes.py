"""Routes to the pods of other nodes: what is wanted, what is changed, and the kernel's own table."""

import asyncio
import subprocess
from typing import Any

import pytest

from component.clock import FakeClock
from node.network.routes import NetlinkRoutes, PodRoutes, RouteError, wanted
from tests.support.netns import own_network_namespace


def _node(name: str, cidr: str = "", *addresses: str) -> dict[str, Any]:
    listed = [{"type": "InternalIP", "address": address} for address in addresses] + [{"type": "Hostname", "address": name}]
    return {"metadata": {"name": name}, "spec": {"podCIDR": cidr} if cidr else {}, "status": {"addresses": listed}}


def test_what_is_wanted() -> None:
    dual = _node("c", "", "192.0.2.3", "2001:db8::3")
    dual["spec"]["podCIDRs"] = ["10.244.3.0/24", "fd00:3::/64"]
    nodes = [_node("me", "10.244.1.0/24", "192.0.2.1"), _node("b", "10.244.2.0/24", "192.0.2.2"), dual, _node("new")]
    assert wanted(nodes, "me") == {
        "10.244.2.0/24": "192.0.2.2",
        "10.244.3.0/24": "192.0.2.3",
        "fd00:3::/64": "2001:db8::3",
    }


class _Table:
    def __init__(self) -> None:
        self.routes: dict[str, str] = {"10.244.9.0/24": "192.0.2.9"}
        self.refused: set[str] = set()

    async def list(self) -> dict[str, str]:
        return dict(self.routes)

    async def set(self, destination: str, gateway: str) -> None:
        if gateway in self.refused:
            raise RouteError("far away")
        self.routes[destination] = gateway

    async def delete(self, destination: str) -> None:
        del self.routes[destination]


async def test_the_table_follows_the_nodes() -> None:
    table, clock = _Table(), FakeClock()
    told: list[list[str]] = []
    routes = PodRoutes(table, "me", clock, lambda cidrs: told.append(list(cidrs)))
    task = asyncio.ensure_future(routes.run())
    await clock.settle()
    assert table.routes == {"10.244.9.0/24": "192.0.2.9"}, "nothing is removed before the nodes are known"
    table.refused = {"198.51.100.4"}
    for node in (_node("far", "10.244.4.0/24", "198.51.100.4"), _node("b", "10.244.2.0/24", "192.0.2.2")):
        routes.node_changed(node)
    await clock.settle()
    assert table.routes == {"10.244.2.0/24": "192.0.2.2"}
    assert told[-1] == ["10.244.4.0/24", "10.244.2.0/24"], "pods that no route leads to are pods all the same"
    routes.node_changed(_node("b", "10.244.2.0/24", "192.0.2.22"))
    await clock.settle()
    assert table.routes == {"10.244.2.0/24": "192.0.2.22"}
    table.routes.clear()
    await clock.advance(61)
    assert table.routes == {"10.244.2.0/24": "192.0.2.22"}, "somebody else's hand is mended"
    routes.node_removed(_node("b"))
    await clock.settle()
    assert table.routes == {}
    task.cancel()
    await asyncio.wait({task})


@pytest.mark.root
def test_the_kernels_table() -> None:
    with own_network_namespace() as namespace:

        def ip(*arguments: str) -> str:
            return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout

        ip("link", "add", "v0", "type", "veth", "peer", "name", "v1")
        ip("address", "add", "192.0.2.1/24", "dev", "v0")
        for link in ("v0", "v1"):
            ip("link", "set", link, "up")
        ip("route", "add", "10.9.0.0/16", "via", "192.0.2.9")

        async def scenario() -> None:
            table = NetlinkRoutes()
            assert await table.list() == {}
            await table.set("10.244.2.0/24", "192.0.2.2")
            await table.set("10.244.2.0/24", "192.0.2.3")
            assert await table.list() == {"10.244.2.0/24": "192.0.2.3"}
            with pytest.raises(RouteError, match="not on a network of this node"):
                await table.set("10.244.3.0/24", "198.51.100.1")
            await table.delete("10.244.2.0/24")
            await table.delete("10.244.2.0/24")
            assert await table.list() == {}

        asyncio.run(scenario())  # its threads are born in the namespace, too
        assert "10.9.0.0/16 via 192.0.2.9" in ip("route", "show"), namespace
