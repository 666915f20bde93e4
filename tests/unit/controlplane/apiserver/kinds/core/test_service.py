from typing import Any

import pytest

from apimachinery.errors import StatusError
from controlplane.apiserver.kinds.config import KindsConfig
from controlplane.apiserver.registry.strategy import Allocation, Strategy
from controlplane.apiserver.storage.backends.memory import MemoryBackend
from tests.support.kinds import NOW, context, created, problems, strategy, update_problems

Object = dict[str, Any]


def service(name: str = "web", **spec: Any) -> Object:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


async def store(backend: MemoryBackend, kind: Strategy, obj: Object, old: Object | None = None) -> Allocation:
    allocation = await kind.allocate(context(), obj, old)
    outcome = await backend.commit(allocation.conditions, allocation.operations)
    assert outcome.succeeded
    return allocation


@pytest.fixture
def backend() -> MemoryBackend:
    return MemoryBackend()


@pytest.fixture
def kind(backend: MemoryBackend) -> Strategy:
    return strategy("services", KindsConfig(reader=backend))


def test_defaults() -> None:
    obj = created(strategy("services"), service(selector={"a": "b"}))
    assert obj["spec"] == {
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        "selector": {"a": "b"},
        "sessionAffinity": "None",
        "type": "ClusterIP",
        "internalTrafficPolicy": "Cluster",
        "ipFamilyPolicy": "SingleStack",
        "ipFamilies": ["IPv4"],
    }
    assert obj["status"] == {"loadBalancer": {}}


def test_client_ip_affinity_lasts_three_hours_by_default() -> None:
    obj = created(strategy("services"), service(sessionAffinity="ClientIP"))
    assert obj["spec"]["sessionAffinityConfig"] == {"clientIP": {"timeoutSeconds": 10800}}


def test_headless_service_without_selector_has_both_families() -> None:
    obj = created(strategy("services"), service(clusterIP="None"))
    assert (obj["spec"]["ipFamilies"], obj["spec"]["ipFamilyPolicy"]) == (["IPv4", "IPv6"], "RequireDualStack")
    assert obj["spec"]["clusterIPs"] == ["None"]


INVALID = [
    pytest.param({"ports": []}, "spec.ports: Required value", id="no ports"),
    pytest.param(
        {"ports": [{"port": 0}]}, "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive", id="port"
    ),
    pytest.param({"ports": [{"port": 1}, {"port": 2, "name": "b"}]}, "spec.ports[0].name: Required value", id="nameless"),
    pytest.param(
        {"ports": [{"port": 1, "name": "a"}, {"port": 2, "name": "a"}]}, 'spec.ports[1].name: Duplicate value: "a"', id="names"
    ),
    pytest.param(
        {"ports": [{"port": 80, "nodePort": 30000}]},
        "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
        id="node port of a ClusterIP service",
    ),
    pytest.param({"type": "Magic"}, 'spec.type: Unsupported value: "Magic"', id="type"),
    pytest.param({"type": "ExternalName"}, "spec.externalName: Required value", id="external name"),
    pytest.param({"clusterIP": "1.2.3"}, 'spec.clusterIPs[0]: Invalid value: "1.2.3": must be a valid IP address', id="address"),
    pytest.param(
        {"clusterIP": "None", "type": "NodePort"},
        "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services",
        id="headless node port",
    ),
    pytest.param(
        {"externalTrafficPolicy": "Local"},
        'spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services',
        id="external policy",
    ),
    pytest.param({"selector": {"-": "b"}}, 'spec.selector: Invalid value: "-": name part must consist', id="selector"),
    pytest.param(
        {"ipFamilyPolicy": "RequireDualStack"},
        'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services',
        id="dual stack",
    ),
    pytest.param({"externalIPs": ["127.0.0.1"]}, "spec.externalIPs[0]: Invalid value", id="loopback"),
    pytest.param(
        {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 0}}},
        "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 0: must be greater than 0 and less than 86400",
        id="affinity seconds",
    ),
]


@pytest.mark.parametrize(("spec", "message"), INVALID)
def test_refuses(spec: Object, message: str) -> None:
    found = problems(strategy("services"), service(**spec))
    assert any(text.startswith(message) for text in found), found


async def test_address_and_node_port_are_claimed_and_released(backend: MemoryBackend, kind: Strategy) -> None:
    obj = created(kind, service(type="NodePort"))
    await store(backend, kind, obj)
    address, port = obj["spec"]["clusterIP"], obj["spec"]["ports"][0]["nodePort"]
    assert obj["spec"]["clusterIPs"] == [address]
    assert address.startswith("10.")
    assert 30000 <= port <= 32767
    assert await backend.get(f"/registry/ipaddresses/{address}")
    claim = await backend.get(f"/registry/ranges/servicenodeports/{port}")
    assert claim is not None
    assert claim.value == b"default/web"
    await backend.commit([], kind.release(obj))
    assert not (await backend.range("/registry/")).items


async def test_taken_values_are_refused_with_upstreams_words(backend: MemoryBackend, kind: Strategy) -> None:
    first = service(type="NodePort", clusterIP="10.96.0.10", ports=[{"port": 80, "nodePort": 30080}])
    await store(backend, kind, created(kind, first))
    second = created(kind, service("other", clusterIP="10.96.0.10"))
    with pytest.raises(StatusError) as caught:
        await kind.allocate(context(), second, None)
    assert caught.value.message == (
        'Service "other" is invalid: spec.clusterIPs: Invalid value: ["10.96.0.10"]: '
        "failed to allocate IP 10.96.0.10: provided IP is already allocated"
    )
    third = created(kind, service("third", type="NodePort", ports=[{"port": 80, "nodePort": 30080}]))
    with pytest.raises(StatusError) as caught:
        await kind.allocate(context(), third, None)
    assert caught.value.message == (
        'Service "third" is invalid: spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated'
    )


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param({"clusterIP": "1.2.3.4"}, "the provided network does not match the current range", id="address"),
        pytest.param({"clusterIP": "10.96.0.0"}, "The range of valid IPs is 10.96.0.0/12", id="network address"),
        pytest.param(
            {"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]},
            "provided port is not in the valid range. The range of valid ports is 30000-32767",
            id="port",
        ),
    ],
)
async def test_values_out_of_range(kind: Strategy, spec: Object, message: str) -> None:
    obj = created(kind, service(**spec))
    with pytest.raises(StatusError, match=message):
        await kind.allocate(context(), obj, None)


async def test_a_lost_race_picks_again_but_a_requested_value_fails(backend: MemoryBackend, kind: Strategy) -> None:
    obj = created(kind, service(type="NodePort"))
    await kind.allocate(context(), obj, None)
    first = obj["spec"]["clusterIP"]
    rival = created(kind, service("rival", clusterIP=str(first), clusterIPs=[str(first)]))
    await store(backend, kind, rival)
    await store(backend, kind, obj)
    assert obj["spec"]["clusterIP"] != first


async def test_tcp_and_udp_of_one_port_share_a_node_port(backend: MemoryBackend, kind: Strategy) -> None:
    ports = [{"name": "t", "port": 53}, {"name": "u", "port": 53, "protocol": "UDP"}]
    obj = created(kind, service(type="NodePort", ports=ports))
    await store(backend, kind, obj)
    assert obj["spec"]["ports"][0]["nodePort"] == obj["spec"]["ports"][1]["nodePort"]


async def test_a_load_balancer_may_do_without_node_ports_but_not_take_one(backend: MemoryBackend, kind: Strategy) -> None:
    await store(backend, kind, created(kind, service(type="NodePort", ports=[{"port": 80, "nodePort": 30080}])))
    without = created(kind, service("lb", type="LoadBalancer", allocateLoadBalancerNodePorts=False))
    await store(backend, kind, without)
    assert "nodePort" not in without["spec"]["ports"][0]
    ports = [{"port": 80, "nodePort": 30080}]
    greedy = created(kind, service("lb2", type="LoadBalancer", allocateLoadBalancerNodePorts=False, ports=ports))
    with pytest.raises(StatusError, match="provided port is already allocated"):
        await kind.allocate(context(), greedy, None)


async def test_local_load_balancers_get_a_health_check_port(backend: MemoryBackend, kind: Strategy) -> None:
    obj = created(kind, service(type="LoadBalancer", externalTrafficPolicy="Local"))
    await store(backend, kind, obj)
    port = obj["spec"]["healthCheckNodePort"]
    assert port != obj["spec"]["ports"][0]["nodePort"]
    rival = created(kind, service("r", type="LoadBalancer", externalTrafficPolicy="Local", healthCheckNodePort=int(port)))
    with pytest.raises(StatusError, match=f"failed to allocate requested HealthCheck NodePort {port}: provided port is already"):
        await kind.allocate(context(), rival, None)


async def test_update_keeps_what_it_does_not_mention(backend: MemoryBackend, kind: Strategy) -> None:
    old = created(kind, service(type="NodePort"))
    await store(backend, kind, old)
    new = service(type="NodePort")
    new["metadata"] = old["metadata"]
    assert update_problems(kind, new, old) == []
    allocation = await kind.allocate(context(), new, old)
    assert not allocation.operations
    assert new["spec"]["clusterIP"] == old["spec"]["clusterIP"]
    assert new["spec"]["ports"] == old["spec"]["ports"]


async def test_a_changed_type_frees_node_ports_and_addresses(backend: MemoryBackend, kind: Strategy) -> None:
    old = created(kind, service(type="NodePort"))
    await store(backend, kind, old)
    plain = {**old, "spec": {**old["spec"], "type": "ClusterIP", "ports": [dict(port) for port in old["spec"]["ports"]]}}
    assert update_problems(kind, plain, old) == []
    await store(backend, kind, plain, old)
    assert not (await backend.range("/registry/ranges/")).items
    external = {**plain, "spec": {**plain["spec"], "type": "ExternalName", "externalName": "example.com"}}
    assert update_problems(kind, external, plain) == []
    await store(backend, kind, external, plain)
    assert not (await backend.range("/registry/")).items


async def test_cluster_ip_may_not_change(backend: MemoryBackend, kind: Strategy) -> None:
    old = created(kind, service(clusterIP="10.96.0.10"))
    new = service(clusterIP="10.96.0.11", clusterIPs=["10.96.0.11"])
    found = update_problems(kind, new, old)
    assert 'spec.clusterIPs[0]: Invalid value: ["10.96.0.11"]: may not change once set' in found


@pytest.mark.parametrize(
    ("spec", "status", "cells"),
    [
        pytest.param({"clusterIPs": ["10.96.0.10"]}, {}, ["ClusterIP", "10.96.0.10", "<none>", "80/TCP"], id="cluster IP"),
        pytest.param({"clusterIP": "None"}, {}, ["ClusterIP", "None", "<none>", "80/TCP"], id="headless"),
        pytest.param(
            {"type": "NodePort", "clusterIPs": ["10.96.0.10"], "ports": [{"port": 80, "nodePort": 30080}]},
            {},
            ["NodePort", "10.96.0.10", "<none>", "80:30080/TCP"],
            id="node port",
        ),
        pytest.param({"type": "LoadBalancer"}, {}, ["LoadBalancer", "<none>", "<pending>", "80/TCP"], id="pending balancer"),
        pytest.param(
            {"type": "LoadBalancer"},
            {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}},
            ["LoadBalancer", "<none>", "1.2.3.4", "80/TCP"],
            id="balancer",
        ),
        pytest.param(
            {"type": "ExternalName", "externalName": "example.com", "ports": []},
            {},
            ["ExternalName", "<none>", "example.com", "<none>"],
            id="external name",
        ),
    ],
)
def test_row(spec: Object, status: Object, cells: list[str]) -> None:
    kind = strategy("services")
    obj = created(kind, service(**spec))
    obj["status"] = status
    obj["metadata"]["creationTimestamp"] = "2026-11-30T11:59:00Z"
    assert kind.row(obj, NOW) == ["web", *cells, "60s", "<none>"]
