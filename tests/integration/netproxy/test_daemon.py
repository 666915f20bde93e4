"""The whole proxy daemon on the real API server: objects in, answers from the cluster IP, what it says of itself."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from apimachinery.resources import ENDPOINT_SLICES, EVENTS, SERVICES
from client import kubeconfig
from client.rest import Client
from netproxy.__main__ import DAEMON
from netproxy.cleanup import cleanup
from netproxy.families import FAMILIES
from tests.support.apiserver import TestServer, running_apiserver
from tests.support.podnet import NODE_IP, POD_CIDR, V4, V6, PodNetwork, pod_network
from tests.support.ports import free_port

pytestmark = pytest.mark.root

Object = dict[str, Any]


class Running:
    def __init__(self, net: PodNetwork, server: TestServer, client: Client) -> None:
        self.net, self.server, self.client = net, server, client
        self.healthz, self.metrics = free_port(), free_port()

    def flags(self, *more: str) -> dict[str, Any]:
        arguments = [
            f"--kubeconfig={self.server.kubeconfig_for('proxy-token')}",
            "--hostname-override=node-1",
            f"--cluster-cidr={POD_CIDR}",
            f"--healthz-bind-address=127.0.0.1:{self.healthz}",
            f"--metrics-bind-address=127.0.0.1:{self.metrics}",
            *more,
        ]
        import click

        return click.Command("proxy", params=list(DAEMON.params)).make_context("proxy", arguments).params

    async def get(self, port: int, path: str) -> tuple[int, str]:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
            return answer.status, await answer.text()


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    with pod_network() as net:
        ranges = ("10.96.0.0/16", "fd00:10:96::/112")
        async with running_apiserver(service_ranges=ranges) as server, Client(kubeconfig.load(server.kubeconfig)) as client:
            yield Running(net, server, client)


async def _until(check: Callable[[], Awaitable[bool]], seconds: float = 10.0) -> float:
    begun = time.monotonic()
    while not await check():
        assert time.monotonic() - begun < seconds
        await asyncio.sleep(0.01)
    return time.monotonic() - begun


def _service(name: str, **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80, "targetPort": 8080}], **spec}}


def _slice(name: str, *ips: str) -> Object:
    family = "IPv6" if ":" in ips[0] else "IPv4"
    return {
        "metadata": {"name": f"{name}-{family.lower()}", "labels": {"kubernetes.io/service-name": name}},
        "addressType": family,
        "endpoints": [{"addresses": [ip], "conditions": {"ready": True}, "nodeName": "node-1"} for ip in ips],
        "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
    }


async def test_a_service_answers_soon_after_its_slice_is_stored_and_the_journal_says_when(running: Running) -> None:
    pod = running.net.pod()
    pod.serve_tcp(8080)
    created = await running.client.create(SERVICES, _service("web", type="NodePort"), "default")
    vip, node_port = created["spec"]["clusterIP"], created["spec"]["ports"][0]["nodePort"]
    async with asyncio.TaskGroup() as group:
        task = group.create_task(DAEMON.main(running.flags()))

        async def refused() -> bool:
            return (await asyncio.to_thread(running.net.node.ask_tcp, vip, 80, 0.5))[0] == "ConnectionRefusedError"

        await _until(refused)
        await running.client.create(ENDPOINT_SLICES, _slice("web", pod.ip), "default")

        async def journaled() -> bool:
            _, text = await running.get(running.metrics, "/debug/programmed")
            return any((each["service"], each["endpoints"]) == ("default/web", 1) for each in json.loads(text))

        reaction = await _until(journaled)
        assert reaction < 1
        assert (await asyncio.to_thread(running.net.node.ask_tcp, vip, 80))[0] == pod.ip
        assert (await asyncio.to_thread(running.net.outside.ask_tcp, NODE_IP, node_port))[0] == pod.ip
        status, health = await running.get(running.healthz, "/healthz")
        assert (status, '"nodeEligible":true' in health) == (200, True)
        assert (await running.get(running.metrics, "/proxyMode")) == (200, "iptables")
        _, metrics = await running.get(running.metrics, "/metrics")
        assert 'kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family="IPv4"}' in metrics
        events = await running.client.list(EVENTS, "default")
        assert ("Node", "Starting") in {(each["regarding"]["kind"], each["reason"]) for each in events["items"]}
        task.cancel()
    # a restart must not interrupt anybody: rules stay when the daemon stops
    assert (await asyncio.to_thread(running.net.node.ask_tcp, vip, 80))[0] == pod.ip
    await cleanup()
    await cleanup()
    assert (await asyncio.to_thread(running.net.node.ask_tcp, vip, 80, 0.3))[0] != pod.ip


@pytest.mark.parametrize("mode", ["iptables", "nftables"])
async def test_a_dual_stack_service_is_served_in_both_families(running: Running, mode: str) -> None:
    pod = running.net.pod()
    pod.serve_tcp(8080)
    pod.serve_tcp(8080, V6.every)
    created = await running.client.create(
        SERVICES, _service("web", type="NodePort", ipFamilyPolicy="RequireDualStack"), "default"
    )
    node_port = created["spec"]["ports"][0]["nodePort"]
    four, six = created["spec"]["clusterIPs"]
    for address in (V4.pod(2), V6.pod(2)):
        await running.client.create(ENDPOINT_SLICES, _slice("web", address), "default")
    async with asyncio.TaskGroup() as group:
        more = [f"--cluster-cidr={V4.pod_cidr},{V6.pod_cidr}", f"--healthz-bind-address=0.0.0.0:{running.healthz}"]
        more += [f"--proxy-mode={mode}", f"--nodeport-addresses={V4.neighbours},{V6.neighbours}"]
        task = group.create_task(DAEMON.main(running.flags(*more)))

        async def programmed() -> bool:
            status, _ = await running.get(running.healthz, "/healthz")
            text = (await running.get(running.metrics, "/metrics"))[1] if status == 200 else ""
            return all(f'kubeproxy_sync_proxy_rules_last_timestamp_seconds{{ip_family="{each}"}}' in text for each in FAMILIES)

        await _until(_answering(programmed))
        seen = {
            where: (await asyncio.to_thread(running.net.outside.ask_tcp, *where))[1]
            for where in ((four, 80), (six, 80), (V4.node, node_port), (V6.node, node_port))
        }
        assert set(seen.values()) == {V4.bridge, V6.bridge}
        assert (await running.get(running.metrics, "/proxyMode")) == (200, mode)
        async with aiohttp.ClientSession() as session, session.get(f"http://[::1]:{running.healthz}/livez") as answer:
            assert answer.status == 200
        task.cancel()
    await cleanup()
    assert (await asyncio.to_thread(running.net.node.ask_tcp, six, 80, 0.3))[1] == ""


def _answering(check: Callable[[], Awaitable[bool]]) -> Callable[[], Awaitable[bool]]:
    """False while nobody listens yet."""

    async def checked() -> bool:
        try:
            return await check()
        except aiohttp.ClientConnectionError:
            return False

    return checked
