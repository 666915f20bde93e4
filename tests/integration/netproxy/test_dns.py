"""The whole DNS daemon on the real API server: objects in, answers over UDP and TCP, also once that server is gone."""

import asyncio
import json
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import click
import dns.asyncquery
import dns.message
import dns.rcode
import pytest

from apimachinery.resources import CONFIG_MAPS, ENDPOINT_SLICES, NODES, SERVICES
from apimachinery.times import format_micro_time
from bootstrap.cluster_dns import NAMESPACE, SERVICE, USER, objects
from client import kubeconfig
from client.rest import APPLY, Client
from netproxy.dns import publish
from netproxy.dns.__main__ import DAEMON
from netproxy.dns.facts import TRIGGER_ANNOTATION
from tests.support import apiserver
from tests.support.apiserver import TestServer, running_apiserver
from tests.support.dns import endpoint_slice, service, texts
from tests.support.ports import free_port

HOST = "127.0.0.1"
NODE = "node-1"


class Running:
    """The daemon's ports, and questions to it."""

    def __init__(self, server: TestServer, client: Client) -> None:
        self.server, self.client = server, client
        self.port, self.http = free_port(), free_port()

    def options(self, *more: str) -> dict[str, Any]:
        arguments = [
            f"--kubeconfig={self.server.kubeconfig_for('dns-token')}",
            f"--hostname-override={NODE}",
            f"--port={self.port}",
            "--advertise-address=192.0.2.10",
            f"--metrics-bind-address={HOST}:{self.http}",
            "--resolv-conf=",
            *more,
        ]
        return click.Command("dns", params=list(DAEMON.params)).make_context("dns", arguments).params

    async def ask(self, name: str, kind: str = "A", *, tcp: bool = False) -> dns.message.Message:
        query = dns.message.make_query(name, kind, use_edns=0)
        how = dns.asyncquery.tcp if tcp else dns.asyncquery.udp
        return await how(query, HOST, port=self.port, timeout=3)

    async def get(self, path: str) -> tuple[int, str]:
        async with aiohttp.ClientSession() as session, session.get(f"http://{HOST}:{self.http}{path}") as answer:
            return answer.status, await answer.text()

    @asynccontextmanager
    async def daemon(self, *more: str, status: int = 200) -> AsyncIterator[None]:
        task = asyncio.ensure_future(DAEMON.main(self.options(*more)))
        try:
            await until(lambda: self.get("/ready"), lambda answer: answer[0] == status, task)
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def until(ask: Callable[[], Any], good: Callable[[Any], bool], task: "asyncio.Future[None] | None" = None) -> Any:
    """What ``ask`` gives once it is good; within ten seconds."""
    last: object = None
    for _ in range(200):
        if task is not None and task.done():
            task.result()
        try:
            last = await ask()
            if good(last):
                return last
        except (OSError, aiohttp.ClientError, dns.exception.Timeout) as error:
            last = error
        await asyncio.sleep(0.05)
    raise AssertionError(f"still {last!r}")


@pytest.fixture
async def running(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Running]:
    monkeypatch.setitem(apiserver.TOKENS, "dns-token", (USER, "7", ""))
    async with running_apiserver() as server, Client(kubeconfig.load(server.kubeconfig)) as client:
        for path, obj in objects("10.96.0.10"):
            where = f"{path}?fieldManager=t&force=true"
            answer = await server.request("PATCH", where, obj, headers={"Content-Type": str(APPLY)})
            assert answer.status in (200, 201), answer.json
        await client.create(NODES, {"metadata": {"name": NODE}})
        yield Running(server, client)


def stored(obj: Any) -> Any:
    """As a user writes it: the API server chooses the rest."""
    return {**obj, "spec": {**obj["spec"], "ports": [{**port, "targetPort": 8080} for port in obj["spec"]["ports"]]}}


async def test_names_follow_the_objects(running: Running) -> None:
    async with running.daemon():
        name = "web.default.svc.cluster.local"
        assert (await running.ask(name)).rcode() == dns.rcode.NXDOMAIN
        web = await running.client.create(SERVICES, stored(service("web", "10.96.0.77")))
        answer = await until(lambda: running.ask(name), lambda answer: bool(answer.answer))
        assert texts(answer) == [f"{name}. 30 A 10.96.0.77"]
        assert texts(await running.ask(name, tcp=True)) == texts(answer)
        await running.client.create(SERVICES, stored(service("pets")))
        pet = {"addresses": ["10.244.0.5"], "conditions": {"ready": True}, "hostname": "pet-0"}
        piece = endpoint_slice("pets", pet)
        piece["metadata"]["annotations"] = {TRIGGER_ANNOTATION: format_micro_time(datetime.now(UTC) + timedelta(seconds=1))}
        await running.client.create(ENDPOINT_SLICES, piece)
        pointer = await until(lambda: running.ask("5.0.244.10.in-addr.arpa", "PTR"), lambda answer: bool(answer.answer))
        assert texts(pointer) == ["5.0.244.10.in-addr.arpa. 30 PTR pet-0.pets.default.svc.cluster.local."]
        await running.client.delete(SERVICES, web["metadata"]["name"], "default")
        await until(lambda: running.ask(name), lambda answer: answer.rcode() == dns.rcode.NXDOMAIN)
        status, page = await running.get("/metrics")
        assert status == 200
        assert 'coredns_dns_responses_total{plugin="kubernetes",rcode="NXDOMAIN"' in page
        here = f'server="dns://:{running.port}"'
        assert f'coredns_dns_requests_total{{family="1",proto="tcp",{here},type="A",view="",zone="cluster.local."}} 1.0' in page
        assert f'coredns_dns_request_size_bytes_count{{proto="tcp",{here},view="",zone="cluster.local."}} 1.0' in page
        assert 'coredns_kubernetes_dns_programming_duration_seconds_count{service_kind="headless_with_selector"} 1.0' in page
        assert [(await running.get(path))[0] for path in ("/health", "/healthz", "/readyz", "/nothing")] == [200, 200, 200, 404]
        # nobody to ask: an error, at once
        assert (await running.ask("example.com")).rcode() == dns.rcode.SERVFAIL
        await running.server.stop()
        assert texts(await running.ask("pet-0.pets.default.svc.cluster.local"))


async def test_the_service_leads_here_while_the_server_runs(running: Running) -> None:
    async def published() -> Any:
        return await running.client.list(ENDPOINT_SLICES, NAMESPACE, label_selector=f"kubernetes.io/service-name={SERVICE}")

    def leads(found: Any) -> bool:
        return [each["endpoints"][0]["conditions"]["ready"] for each in found["items"]] == [True]

    async with running.daemon():
        (piece,) = (await until(published, leads))["items"]
        assert piece["endpoints"][0]["addresses"] == ["192.0.2.10"]
        assert {(port["name"], port["port"], port["protocol"]) for port in piece["ports"]} == {
            ("dns", running.port, "UDP"),
            ("dns-tcp", running.port, "TCP"),
        }
        assert piece["metadata"]["ownerReferences"][0]["name"] == NODE
        # somebody's change is mended
        broken = {"endpoints": [{"addresses": ["192.0.2.66"]}]}
        await running.client.patch(ENDPOINT_SLICES, publish.slice_name(NODE), broken, namespace=NAMESPACE)
        await until(published, lambda found: found["items"][0]["endpoints"][0]["addresses"] == ["192.0.2.10"] and leads(found))
    assert not leads(await published())


async def test_a_stub_domain_of_the_cluster_is_asked_elsewhere(running: Running) -> None:
    """The other server is this one, under a domain of its own."""
    other = Running(running.server, running.client)
    name = "kube-dns.kube-system.svc.corp.test"
    async with other.daemon("--cluster-domain=corp.test"), running.daemon():
        assert (await running.ask(name)).rcode() == dns.rcode.SERVFAIL
        data = {"stubDomains": json.dumps({"corp.test": [f"{HOST}:{other.port}"]})}
        await running.client.create(CONFIG_MAPS, {"metadata": {"name": SERVICE, "namespace": NAMESPACE}, "data": data})
        answer = await until(lambda: running.ask(name), lambda answer: bool(answer.answer))
        assert texts(answer) == [f"{name}. 30 A 10.96.0.10"]
        assert not answer.flags & dns.flags.AA
        await running.client.delete(CONFIG_MAPS, SERVICE, NAMESPACE)
        await until(lambda: running.ask(name), lambda answer: answer.rcode() == dns.rcode.SERVFAIL)


async def test_without_an_api_server_nothing_is_denied_and_the_rest_is_forwarded(running: Running) -> None:
    other = Running(running.server, running.client)
    async with other.daemon("--cluster-domain=corp.test"):
        await running.server.stop()
        async with running.daemon(f"--upstream={HOST}:{other.port}", status=500):
            for name, kind in (("web.default.svc.cluster.local", "A"), ("cluster.local", "SOA")):
                assert (await running.ask(name, kind)).rcode() == dns.rcode.SERVFAIL
            outside = "kube-dns.kube-system.svc.corp.test"
            answer = await until(lambda: running.ask(outside), lambda answer: bool(answer.answer))
            assert texts(answer) == [f"{outside}. 30 A 10.96.0.10"]
            assert (await running.get("/health"))[0] == 200


async def test_a_connection_is_pipelined_and_a_bad_one_ends(running: Running) -> None:
    async with running.daemon():
        reader, writer = await asyncio.open_connection(HOST, running.port)
        names = ["kube-dns.kube-system.svc.cluster.local", "kubernetes.default.svc.cluster.local"]
        queries = [dns.message.make_query(name, "A") for name in names]
        writer.write(b"".join(struct.pack("!H", len(each.to_wire())) + each.to_wire() for each in queries))
        answers = {}
        for _ in queries:
            (length,) = struct.unpack("!H", await reader.readexactly(2))
            answer = dns.message.from_wire(await reader.readexactly(length))
            answers[answer.id] = answer
        assert all(query.is_response(answers[query.id]) and answers[query.id].answer for query in queries)
        writer.write(struct.pack("!H", 3) + b"bad")
        assert await reader.read() == b""
        writer.close()
