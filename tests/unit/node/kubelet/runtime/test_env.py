"""Environment variables: references, services, sources and their errors."""

import pytest

from node.kubelet.runtime import env
from tests.support.pod_workers import Objects, container, pod


@pytest.mark.parametrize(
    ("text", "expanded"),
    [("$(A)", "1"), ("x$(A)y$(B)", "x1y2"), ("$(C)", "$(C)"), ("$$(A)", "$(A)"), ("$A", "$A"), ("$(A", "$(A"), ("$$$$", "$$")],
)
def test_expansion(text: str, expanded: str) -> None:
    assert env.expand(text, {"A": "1", "B": "2"}) == expanded


def test_service_variables() -> None:
    ports = [{"name": "http", "port": 80, "protocol": "TCP"}, {"name": "dns-udp", "port": 53, "protocol": "UDP"}]
    services = [
        {"metadata": {"name": "my-db", "namespace": "default"}, "spec": {"clusterIP": "10.96.0.7", "ports": ports}},
        {"metadata": {"name": "other", "namespace": "elsewhere"}, "spec": {"clusterIP": "10.96.0.8", "ports": ports}},
        {"metadata": {"name": "headless", "namespace": "default"}, "spec": {"clusterIP": "None", "ports": ports}},
        {
            "metadata": {"name": "kubernetes", "namespace": "default"},
            "spec": {"clusterIP": "10.96.0.1", "ports": [{"port": 443}]},
        },
    ]
    made = env.service_variables(services, "default", links=True)
    assert made["MY_DB_SERVICE_HOST"] == "10.96.0.7"
    assert made["MY_DB_SERVICE_PORT_DNS_UDP"] == "53"
    assert made["MY_DB_PORT"] == "tcp://10.96.0.7:80"
    assert made["MY_DB_PORT_53_UDP_ADDR"] == "10.96.0.7"
    assert not [name for name in made if name.startswith(("OTHER", "HEADLESS"))]
    assert {name.partition("_")[0] for name in env.service_variables(services, "default", links=False)} == {"KUBERNETES"}
    assert "KUBERNETES_SERVICE_HOST" in env.service_variables(services, "elsewhere", links=False)


async def test_later_variables_see_earlier_ones_and_win_over_env_from() -> None:
    objects = Objects(config_maps={("default", "c"): {"data": {"A": "map", "B": "map"}}})
    given = container(
        envFrom=[{"prefix": "P_", "configMapRef": {"name": "c"}}, {"configMapRef": {"name": "c"}}],
        env=[{"name": "A", "value": "own"}, {"name": "C", "value": "$(A)-$(B)-$(P_A)"}],
    )
    made = await env.environment(pod(), given, objects, [], {})
    assert made == {"P_A": "map", "P_B": "map", "A": "own", "B": "map", "C": "own-map-map"}


async def test_optional_sources_may_be_absent() -> None:
    variable = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}}
    given = container(env=[variable], envFrom=[{"configMapRef": {"name": "c", "optional": True}}])
    assert await env.environment(pod(), given, Objects(), [], {}) == {}


async def test_missing_keys_and_objects_are_named() -> None:
    objects = Objects(secrets={("default", "s"): {"data": {"a": "MQ=="}}})
    variable = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    with pytest.raises(env.EnvError, match="couldn't find key k in Secret default/s"):
        await env.environment(pod(), container(env=[variable]), objects, [], {})
    with pytest.raises(env.EnvError, match='secret "t" not found'):
        await env.environment(pod(), container(envFrom=[{"secretRef": {"name": "t"}}]), objects, [], {})
    good = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "a"}}}
    assert (await env.environment(pod(), container(env=[good]), objects, [], {}))["A"] == "1"
