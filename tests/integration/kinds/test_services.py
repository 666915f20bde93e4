"""Cluster IPs and node ports on the real API server: one holder each, freed with the Service."""

import asyncio
from typing import Any

from tests.support.apiserver import TestServer, running_apiserver

SERVICES = "/api/v1/namespaces/default/services"
ADDRESSES = "/apis/networking.k8s.io/v1/ipaddresses"


def service(name: str, node_port: int = 0, **spec: Any) -> dict[str, Any]:
    port: dict[str, Any] = {"port": 80, **({"nodePort": node_port} if node_port else {})}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": [port], **spec}}


async def names_of(server: TestServer, path: str) -> set[str]:
    return {item["metadata"]["name"] for item in (await server.request("GET", path)).json["items"]}


async def test_of_many_who_want_one_port_one_gets_it() -> None:
    async with running_apiserver() as server:
        wishes = [server.request("POST", SERVICES, service(f"s{n}", 30080, type="NodePort")) for n in range(20)]
        answers = await asyncio.gather(*wishes)
        assert sorted(answer.status for answer in answers) == [201] + [422] * 19
        texts = {answer.json["message"].partition("is invalid: ")[2] for answer in answers if answer.status == 422}
        assert texts == {"spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated"}
        assert len(await names_of(server, SERVICES)) == 2  # kubernetes and the winner
        assert len(await names_of(server, ADDRESSES)) == 2  # the losers left no claim behind


async def test_many_at_once_all_get_addresses_and_ports_of_their_own() -> None:
    async with running_apiserver() as server:
        made = await asyncio.gather(*(server.request("POST", SERVICES, service(f"s{n}", type="NodePort")) for n in range(40)))
        assert {answer.status for answer in made} == {201}
        assert len({answer.json["spec"]["clusterIP"] for answer in made}) == 40
        assert len({answer.json["spec"]["ports"][0]["nodePort"] for answer in made}) == 40


async def test_a_deleted_service_gives_back_what_it_held() -> None:
    async with running_apiserver() as server:
        wish = service("a", 30080, type="NodePort", clusterIP="10.96.0.77")
        assert (await server.request("POST", SERVICES, wish)).status == 201
        assert "10.96.0.77" in await names_of(server, ADDRESSES)
        assert (await server.request("DELETE", f"{SERVICES}/a")).status == 200
        assert "10.96.0.77" not in await names_of(server, ADDRESSES)
        wish["metadata"]["name"] = "b"
        assert (await server.request("POST", SERVICES, wish)).status == 201


async def test_a_patch_of_the_type_moves_claims() -> None:
    async with running_apiserver() as server:
        created = (await server.request("POST", SERVICES, service("a", 30080, type="NodePort"))).json
        patch = {"spec": {"type": "ExternalName", "externalName": "example.com"}}
        merge = "application/merge-patch+json"
        patched = await server.request("PATCH", f"{SERVICES}/a", patch, content_type=merge)
        assert patched.status == 200
        assert "clusterIP" not in patched.json["spec"]
        assert created["spec"]["clusterIP"] not in await names_of(server, ADDRESSES)
        assert (await server.request("POST", SERVICES, service("b", 30080, type="NodePort"))).status == 201


async def test_a_put_without_addresses_keeps_them() -> None:
    async with running_apiserver() as server:
        created = (await server.request("POST", SERVICES, service("a", type="NodePort"))).json
        wish = service("a", type="NodePort", selector={"a": "b"})
        wish["metadata"]["resourceVersion"] = created["metadata"]["resourceVersion"]
        updated = (await server.request("PUT", f"{SERVICES}/a", wish)).json
        assert updated["spec"]["clusterIP"] == created["spec"]["clusterIP"]
        assert updated["spec"]["ports"] == created["spec"]["ports"]


async def test_a_dry_run_claims_nothing() -> None:
    async with running_apiserver() as server:
        wish = service("a", 30080, type="NodePort")
        assert (await server.request("POST", f"{SERVICES}?dryRun=All", wish)).status == 201
        assert len(await names_of(server, ADDRESSES)) == 1
        assert (await server.request("POST", SERVICES, wish)).status == 201


async def test_another_service_cidr_widens_the_choice() -> None:
    async with running_apiserver() as server:
        refused = await server.request("POST", SERVICES, service("a", clusterIP="10.200.0.5"))
        assert "the provided network does not match the current range" in refused.json["message"]
        kind = {"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "more"}}
        path = "/apis/networking.k8s.io/v1/servicecidrs"
        assert (await server.request("POST", path, {**kind, "spec": {"cidrs": ["10.200.0.0/28"]}})).status == 201
        assert (await server.request("POST", SERVICES, service("a", clusterIP="10.200.0.5"))).status == 201
        twice = await server.request("POST", SERVICES, service("b", clusterIP="10.200.0.5"))
        assert twice.json["message"].endswith("provided IP is already allocated")
