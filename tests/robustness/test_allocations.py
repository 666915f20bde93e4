"""Cluster IPs and node ports under kill -9: no two Services share one, none is lost, none is kept for nobody."""

import asyncio
import random
import sqlite3
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.robustness.history import History
from tests.robustness.traffic import LOST, Target
from tests.robustness.worlds import alone

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
SERVICES = "/api/v1/namespaces/default/services"


async def client(target: Target, choose: random.Random) -> None:
    """Creates, retypes and deletes Services of a few names, some with an address that others want as well."""
    while not target.stopping.is_set():
        name, kind, what = f"s{choose.randrange(20)}", choose.choice(("ClusterIP", "NodePort")), choose.random()
        try:
            if what < 0.5:
                spec: dict[str, Any] = {"type": kind, "ports": [{"port": 80}]}
                if choose.random() < 0.4:
                    spec["clusterIP"] = f"10.96.0.{choose.randrange(2, 20)}"
                await target.send("POST", SERVICES, {"metadata": {"name": name}, "spec": spec})
            elif what < 0.7:
                await target.send("PATCH", f"{SERVICES}/{name}", {"spec": {"type": kind}}, "application/merge-patch+json")
            else:
                await target.send("DELETE", f"{SERVICES}/{name}")
        except LOST:
            await asyncio.sleep(0.02)


def claimed(database: Path) -> set[str]:
    """The last parts of the keys under which addresses and ports are claimed, as the file has them."""
    latest: dict[str, bool] = {}
    connection = sqlite3.connect(database)
    for key, alive in connection.execute("SELECT key, value IS NOT NULL FROM revisions ORDER BY id"):
        latest[key] = bool(alive)
    connection.close()
    return {
        key.rpartition("/")[2]
        for key, alive in latest.items()
        if alive and key.startswith(("/registry/ipaddresses/", "/registry/ranges/"))
    }


async def test_claims_and_services_agree(tmp_path: Path) -> None:
    async with alone(tmp_path) as world:
        connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=str(world.ca)), limit=0)
        async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=20)) as session:
            target = Target(world.urls, world.token, session, History())
            async with asyncio.TaskGroup() as clients:
                for number in range(6):
                    clients.create_task(client(target, random.Random(f"allocate {number}")))
                for number in range(3):
                    await asyncio.sleep(1.0)
                    await world.trouble("kill", random.Random(number))
                target.stopping.set()
            _, listed = await target.send("GET", "/api/v1/services")
        await world.end()
        specs = [service["spec"] for service in listed["items"]]
        held = [spec["clusterIP"] for spec in specs]
        held += [str(port["nodePort"]) for spec in specs for port in spec["ports"] if port.get("nodePort")]
        assert len(held) == len(set(held))
        assert claimed(world.disk / "state.db") == set(held)
