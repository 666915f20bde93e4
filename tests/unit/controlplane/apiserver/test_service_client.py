"""Where webhooks are reached, and who we are to them."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from client.kubeconfig import KubeconfigError
from controlplane.apiserver.service_client import ClientConfig, ClusterServices, ResolveError, UnusableConfigError, Users


@pytest.mark.parametrize(
    ("config", "origin", "path"),
    [
        pytest.param({"service": {"namespace": "n", "name": "s"}}, "https://s.n.svc:443", "/", id="a service"),
        pytest.param(
            {"service": {"namespace": "n", "name": "s", "path": "/a/b", "port": 8443}}, "https://s.n.svc:8443", "/a/b", id="all"
        ),
        pytest.param({"url": "https://host.example"}, "https://host.example", "/", id="a url"),
        pytest.param({"url": "https://host:99/a%20b/"}, "https://host:99", "/a%20b", id="a path is cleaned"),
        pytest.param({"url": "https://[::1]:99//x"}, "https://[::1]:99", "/x", id="an address of IPv6"),
    ],
)
def test_configurations_say_where_to_post(config: dict[str, Any], origin: str, path: str) -> None:
    parsed = ClientConfig.parse(config)
    assert (parsed.origin, parsed.path) == (origin, path)


def test_names_and_ports_are_those_of_the_certificate() -> None:
    parsed = ClientConfig.parse({"service": {"namespace": "n", "name": "s"}, "caBundle": "YWJj"})
    assert (parsed.host, parsed.port, parsed.service, parsed.ca_bundle) == ("s.n.svc", 443, ("n", "s"), b"abc")
    assert (ClientConfig.parse({"url": "https://[::1]/"}).host, ClientConfig.parse({"url": "https://[::1]/"}).port) == (
        "::1",
        443,
    )


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({}, "webhook configuration must have either service or URL"),
        ({"url": "https://host:port/"}, "Unparsable URL"),
        ({"url": "https://host", "caBundle": "?"}, "unable to load root certificates"),
    ],
)
def test_configurations_that_name_nothing(config: dict[str, Any], why: str) -> None:
    with pytest.raises(UnusableConfigError, match=why):
        ClientConfig.parse(config)


async def resolved(spec: dict[str, Any] | None, port: int = 443) -> tuple[str, int]:
    async def lookup(resource: str, namespace: str, name: str) -> dict[str, Any] | None:
        assert (resource, namespace, name) == ("services", "n", "s")
        return {"spec": spec} if spec is not None else None

    return await ClusterServices(lookup).resolve("n", "s", port)


@pytest.mark.parametrize("kind", ["ClusterIP", "NodePort", "LoadBalancer"])
async def test_services_are_reached_by_their_address(kind: str) -> None:
    assert await resolved({"type": kind, "clusterIP": "10.0.0.9", "ports": [{"port": 443}]}) == ("10.0.0.9", 443)


async def test_external_names_are_taken_as_they_are() -> None:
    assert await resolved({"type": "ExternalName", "externalName": "x.example"}, 99) == ("x.example", 99)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (None, 'service "s" not found'),
        ({"type": "ClusterIP", "clusterIP": "None", "ports": [{"port": 443}]}, 'cannot route to service with ClusterIP "None"'),
        ({"type": "ClusterIP", "clusterIP": "10.0.0.9", "ports": [{"port": 80}]}, 'no service port 443 found for service "s"'),
        ({"type": "Other"}, 'unsupported service type "Other"'),
    ],
)
async def test_services_without_a_way(spec: dict[str, Any] | None, why: str) -> None:
    with pytest.raises(ResolveError, match=why):
        await resolved(spec)


NAMES = ("hook.example:443", "*.example:443", "exact.other:8443", "plain.n.svc", "*.n.svc", "*", "me")


@pytest.mark.parametrize(
    ("host", "port", "name"),
    [
        ("hook.example", 443, "hook.example:443"),
        ("else.example", 443, "*.example:443"),
        ("else.example", 444, "*"),
        ("exact.other", 8443, "exact.other:8443"),
        ("plain.n.svc", 443, "plain.n.svc"),
        ("plain.n.svc", 444, "*"),
        ("other.n.svc", 443, "*.n.svc"),
        ("a.b.n.svc", 443, "*.n.svc"),
    ],
)
def test_users_are_named_after_servers(tmp_path: Path, host: str, port: int, name: str) -> None:
    users = Users.load(kubeconfig(tmp_path, NAMES))
    assert users.named(host, port) == name
    assert users.get(name).token == f"token of {name}"


def test_who_nobody_named_is_the_current_context_s_user(tmp_path: Path) -> None:
    assert Users.load(kubeconfig(tmp_path, ("me", "other"))).named("host", 443) == "me"
    assert Users().named("host", 443) == ""
    assert Users().get("").token is None


def test_files_that_hold_no_users_are_refused(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("[]")
    with pytest.raises(KubeconfigError, match="not a mapping"):
        Users.load(tmp_path / "config")
    with pytest.raises(KubeconfigError, match="No such file"):
        Users.load(tmp_path / "other")


def kubeconfig(directory: Path, names: tuple[str, ...]) -> Path:
    document = {
        "users": [{"name": name, "user": {"token": f"token of {name}"}} for name in names],
        "contexts": [{"name": "c", "context": {"user": "me"}}],
        "current-context": "c",
    }
    (directory / "config").write_text(yaml.safe_dump(document))
    return directory / "config"
