"""API servers over real etcd: two of them on one cluster tell the same story, and keys and values are upstream's."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.apiserver.config import Storage
from tests.support import custom
from tests.support.apiserver import TestServer, running_apiserver
from tests.support.etcd import Etcd, running_etcd

NAMESPACE = "/api/v1/namespaces/default"


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with running_etcd(tmp_path_factory.mktemp("etcd"), tls=True) as made:
        yield made


@pytest.fixture
async def servers(etcd: Etcd, tmp_path: Path) -> AsyncIterator[list[TestServer]]:
    """Two that start at the same moment on an etcd that may be new: they race for the bootstrap objects."""
    stop = asyncio.Event()

    async def serve(name: str, ready: asyncio.Future[TestServer]) -> None:
        (tmp_path / name).mkdir()
        async with running_apiserver("etcd3", tmp_path / name, storage=Storage("etcd3", etcd=etcd.config())) as server:
            ready.set_result(server)
            await stop.wait()

    async with asyncio.TaskGroup() as tasks:
        ready = {name: asyncio.get_running_loop().create_future() for name in ("a", "b")}
        for name, future in ready.items():
            tasks.create_task(serve(name, future))
        yield list(await asyncio.gather(*ready.values()))
        stop.set()


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


async def test_keys_and_values_are_upstreams(servers: list[TestServer], etcd: Etcd) -> None:
    server = servers[0]
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    assert (await server.request("POST", "/api/v1/nodes", node)).status == 201
    assert (await server.request("POST", f"{NAMESPACE}/configmaps", config_map("plain", a="1"))).status == 201
    keys = etcd.ctl("get", "--prefix", "--keys-only", "/registry/").split()
    for expected in (
        "/registry/minions/n1",
        "/registry/configmaps/default/plain",
        "/registry/namespaces/kube-system",
        "/registry/services/specs/default/kubernetes",
        "/registry/services/endpoints/default/kubernetes",
        "/registry/endpointslices/default/kubernetes",
        "/registry/clusterroles/cluster-admin",
        "/registry/apiregistration.k8s.io/apiservices/v1.apps",
    ):
        assert expected in keys
    value = json.loads(etcd.ctl("get", "--print-value-only", "/registry/configmaps/default/plain"))
    assert (value["kind"], value["data"]) == ("ConfigMap", {"a": "1"})
    assert "resourceVersion" not in value["metadata"]
    assert (await server.request("GET", "/readyz")).status == 200


async def test_admission_asks_etcd_only_for_what_its_cache_lacks(servers: list[TestServer], etcd: Etcd) -> None:
    first, second = servers
    made = await second.request("POST", "/api/v1/namespaces", {"metadata": {"name": "fresh"}})
    assert made.status == 201
    body = config_map("at-once")
    assert (await first.request("POST", "/api/v1/namespaces/fresh/configmaps", body)).status == 201, "found in etcd itself"
    before = etcd.handled("Range")
    for number in range(150):
        assert (await first.request("POST", f"{NAMESPACE}/configmaps", config_map(f"asked-{number}"))).status == 201
    assert etcd.handled("Range") - before < 75, "more than the servers ask for on their own account"


async def test_what_one_server_writes_the_other_reads_at_once(servers: list[TestServer]) -> None:
    first, second = servers
    for number in range(20):
        writer, reader = (first, second) if number % 2 else (second, first)
        path = f"{NAMESPACE}/configmaps/shared-{number}"
        assert (await reader.request("GET", path)).status == 404
        made = await writer.request("POST", f"{NAMESPACE}/configmaps", config_map(f"shared-{number}"))
        assert (await reader.request("GET", path)).json == made.json
        listed = (await reader.request("GET", f"{NAMESPACE}/configmaps")).json
        assert path.rpartition("/")[2] in [item["metadata"]["name"] for item in listed["items"]]
        assert (await writer.request("DELETE", path)).status == 200
        assert (await reader.request("GET", path)).status == 404


async def test_counters_raised_through_both_lose_nothing(servers: list[TestServer]) -> None:
    path = f"{NAMESPACE}/configmaps/counter"
    await servers[0].request("POST", f"{NAMESPACE}/configmaps", config_map("counter", n="0"))

    async def raise_it(server: TestServer, times: int) -> None:
        while times:
            held = (await server.request("GET", path)).json
            held["data"]["n"] = str(int(held["data"]["n"]) + 1)
            times -= (await server.request("PUT", path, held)).status == 200

    await asyncio.gather(*(raise_it(server, 10) for server in servers for _ in range(2)))
    assert (await servers[1].request("GET", path)).json["data"]["n"] == "40"


async def test_services_made_through_both_share_no_address(servers: list[TestServer]) -> None:
    def service(name: str) -> dict[str, Any]:
        spec = {"type": "NodePort", "ports": [{"port": 80}]}
        return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}

    made = await asyncio.gather(
        *(servers[number % 2].request("POST", f"{NAMESPACE}/services", service(f"s{number}")) for number in range(40))
    )
    assert {answer.status for answer in made} == {201}
    assert len({answer.json["spec"]["clusterIP"] for answer in made}) == 40
    assert len({answer.json["spec"]["ports"][0]["nodePort"] for answer in made}) == 40


async def test_writers_through_both_get_no_more_than_their_quota(servers: list[TestServer]) -> None:
    """Each server claims in storage: what one of them has in its cache decides nothing."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bounded"}}
    await servers[0].request("POST", "/api/v1/namespaces", namespace)
    where, hard = "/api/v1/namespaces/bounded", {"count/configmaps": "9"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}}
    made = (await servers[0].request("POST", f"{where}/resourcequotas", quota)).json
    made["status"] = {"hard": hard, "used": {"count/configmaps": "0"}}  # as the controller's first count says
    assert (await servers[1].request("PUT", f"{where}/resourcequotas/q/status", made)).status == 200
    for server in servers:
        for _ in range(200):
            if (await server.request("GET", f"{where}/resourcequotas/q")).json.get("status"):
                break
            await asyncio.sleep(0.01)
    tries = [
        server.request("POST", f"{where}/configmaps", config_map(f"{number}-{which}"))
        for number in range(15)
        for which, server in enumerate(servers)
    ]
    answers = await asyncio.gather(*tries)
    assert sorted(answer.status for answer in answers) == [201] * 9 + [403] * 21
    refused = next(answer.json["message"] for answer in answers if answer.status == 403)
    assert "exceeded quota: q, requested: count/configmaps=1, used: count/configmaps=9, limited: count/configmaps=9" in refused
    for server in servers:
        assert len((await server.request("GET", f"{where}/configmaps")).json["items"]) == 9
    assert (await servers[0].request("GET", f"{where}/resourcequotas/q")).json["status"]["used"] == {"count/configmaps": "9"}


async def test_a_watch_on_one_sees_the_writes_of_the_other(servers: list[TestServer]) -> None:
    first, second = servers
    start = (await first.request("GET", f"{NAMESPACE}/configmaps")).json["metadata"]["resourceVersion"]
    url = f"{second.url}{NAMESPACE}/configmaps?watch=1&resourceVersion={start}&timeoutSeconds=20"
    headers = {"Authorization": f"Bearer {second.admin_token}"}
    async with second.session.get(url, headers=headers, ssl=second.tls) as watch:
        for number in range(5):
            await first.request("POST", f"{NAMESPACE}/configmaps", config_map(f"watched-{number}"))
        seen = [json.loads(await watch.content.readline()) for _ in range(5)]
    assert [event["object"]["metadata"]["name"] for event in seen] == [f"watched-{number}" for number in range(5)]
    assert {event["type"] for event in seen} == {"ADDED"}


async def test_events_expire_by_a_shared_lease(servers: list[TestServer], etcd: Etcd) -> None:
    for number in range(3):
        about = {"kind": "Pod", "namespace": "default", "name": "p"}
        event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": f"e{number}"}, "involvedObject": about}
        assert (await servers[0].request("POST", f"{NAMESPACE}/events", event)).status == 201
    found = json.loads(etcd.ctl("get", "--prefix", "/registry/events/default/", "-w", "json"))
    leases = {kv["lease"] for kv in found["kvs"]}
    assert len(leases) == 1
    left = json.loads(etcd.ctl("lease", "timetolive", f"{leases.pop():x}", "-w", "json"))
    assert 3600 <= left["granted-ttl"] <= 3600 + 60


async def test_stock_kubectl(servers: list[TestServer]) -> None:
    code, out, err = await servers[0].kubectl("create", "configmap", "by-kubectl", "--from-literal=a=1")
    assert code == 0, err
    code, out, err = await servers[1].kubectl("get", "configmap", "by-kubectl", "-o", "name")
    assert (code, out.strip()) == (0, "configmap/by-kubectl"), err


async def test_every_server_is_behind_the_kubernetes_service_and_has_a_lease(etcd: Etcd, tmp_path: Path) -> None:
    async def endpoints(server: TestServer) -> list[list[str]]:
        held = (await server.request("GET", f"{NAMESPACE}/endpoints/kubernetes")).json
        slices = (await server.request("GET", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes")).json
        sliced = [address for endpoint in slices["endpoints"] for address in endpoint["addresses"]]
        return [[address["ip"] for address in subset["addresses"]] for subset in held["subsets"]] + [sliced]

    def settings(address: str) -> dict[str, Any]:
        return {"serving": {"advertise_address": address}, "storage": Storage("etcd3", etcd=etcd.config(prefix="/served"))}

    both = ["192.0.2.9", "192.0.2.10"]
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    async with running_apiserver("etcd3", tmp_path / "a", **settings(both[1])) as first:
        assert await endpoints(first) == [both[1:], both[1:]]
        async with running_apiserver("etcd3", tmp_path / "b", **settings(both[0])):
            assert await endpoints(first) == [both, both]
            leases = (await first.request("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases")).json["items"]
            labels = [lease["metadata"]["labels"].get("apiserver.kubernetes.io/identity") for lease in leases]
            assert labels == ["kube-apiserver"] * 2
            assert json.loads(etcd.ctl("get", "--print-value-only", f"/served/masterleases/{both[0]}"))["kind"] == "Endpoints"
        assert await endpoints(first) == [both[1:], both[1:]], "who leaves takes its address along"


async def test_both_servers_know_a_definition_and_its_changes(servers: list[TestServer], etcd: Etcd) -> None:
    first, second = servers
    await custom.established(first, custom.definition("widgets", "Widget", custom.version(), custom.version("v2", storage=False)))
    await custom.until(second, "widgets.example.com", "Established")
    path = "/apis/example.com/v1/namespaces/default/widgets"
    assert (await second.request("POST", path, custom.widget("a", size=1, bogus=1))).json["spec"] == {"size": 1, "color": "red"}
    assert (await first.request("GET", f"{path}/a")).json["spec"] == {"size": 1, "color": "red"}
    headers = {"Authorization": f"Bearer {second.admin_token}"}
    async with second.session.get(f"{second.url}{path}?watch=1", headers=headers, ssl=second.tls) as stream:
        turned = {"spec": {"versions": [custom.version(storage=False), custom.version("v2")]}}
        definition = f"{custom.DEFINITIONS}/widgets.example.com"
        changed = await first.request("PATCH", definition, turned, content_type="application/merge-patch+json")
        assert changed.json["status"]["storedVersions"] == ["v1", "v2"]
        async with asyncio.timeout(10):
            assert json.loads(await stream.content.readline())["object"]["metadata"]["name"] == "a"
            assert await stream.content.read() == b"", "whoever watched on the other server begins again"
    assert (await second.request("POST", path, custom.widget("b"))).status == 201
    stored = [
        json.loads(etcd.ctl("get", "--print-value-only", f"/registry/example.com/widgets/default/{name}")) for name in ("a", "b")
    ]
    assert [each["apiVersion"] for each in stored] == ["example.com/v1", "example.com/v2"]
    for server in servers:
        group = (await server.request("GET", "/apis/example.com")).json
        assert [each["version"] for each in group["versions"]] == ["v2", "v1"]
        assert len((await server.request("GET", path)).json["items"]) == 2
    await second.request("DELETE", definition)
    await custom.gone(first, "widgets.example.com")
    assert (await first.request("GET", path)).status == 404
    assert etcd.ctl("get", "--prefix", "--keys-only", "/registry/example.com/").split() == []
