"""What a pod may ask for: secrets of its account alone, real confinement, and no volume that runs commands on the node."""

from typing import Any

import pytest

from tests.security.granting import MERGE, account, pod
from tests.support.apiserver import TestServer

PODS = "/api/v1/namespaces/default/pods"
LIMITED = {"annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}}
BY_VARIABLE = {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}
BY_ALL = {"envFrom": [{"secretRef": {"name": "s"}}]}


def containers(**more: Any) -> list[dict[str, Any]]:
    return [{"name": "x", "image": "i", **more}]


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}, 'volume with secret.secretName="s"'),
        (
            {"volumes": [{"name": "v", "projected": {"sources": [{"secret": {"name": "s"}}]}}]},
            'volume with secret.secretName="s"',
        ),
        ({"containers": containers(**BY_VARIABLE)}, "container x with envVar A"),
        ({"containers": containers(**BY_ALL)}, "container x with envFrom"),
        ({"initContainers": containers(**BY_ALL)}, "init container x with envFrom"),
        ({"imagePullSecrets": [{"name": "s"}]}, 'imagePullSecrets[0].name="s"'),
    ],
)
async def test_a_limited_account_lends_no_other_secrets(server: TestServer, spec: dict[str, Any], text: str) -> None:
    """CVE-2023-2728, CVE-2024-3177."""
    await account(server, metadata=LIMITED, secrets=[{"name": "own"}])
    answer = await server.request("POST", PODS, pod("p", **spec))
    assert answer.status == 403
    assert text in answer.json["message"]
    volumes = [{"name": "v", "secret": {"secretName": "own"}}]
    assert (await server.request("POST", PODS, pod("q", volumes=volumes))).status == 201


@pytest.mark.parametrize("more", [BY_VARIABLE, BY_ALL])
async def test_nor_to_containers_added_later(server: TestServer, more: dict[str, Any]) -> None:
    await account(server, metadata=LIMITED)
    assert (await server.request("POST", PODS, pod("p"))).status == 201
    patch = {"spec": {"ephemeralContainers": containers(**more)}}
    answer = await server.request("PATCH", f"{PODS}/p/ephemeralcontainers", patch, content_type=MERGE)
    assert answer.status == 403
    assert "ephemeral container x with env" in answer.json["message"]


async def test_security_standards_hold_for_containers_added_later(server: TestServer) -> None:
    """CVE-2023-2727 is about another plugin; the hole is the same."""
    await account(server)
    await server.request("POST", PODS, pod("p"))
    labels = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}
    await server.request("PATCH", "/api/v1/namespaces/default", labels, content_type=MERGE)
    assert (await server.request("POST", PODS, pod("q", hostNetwork=True))).status == 403
    patch = {"spec": {"ephemeralContainers": containers(securityContext={"privileged": True})}}
    answer = await server.request("PATCH", f"{PODS}/p/ephemeralcontainers", patch, content_type=MERGE)
    assert answer.status == 403
    assert 'violates PodSecurity "baseline:latest": privileged' in answer.json["message"]


@pytest.mark.parametrize("profile", [{"type": "Localhost"}, {"type": "Localhost", "localhostProfile": ""}])
async def test_a_local_profile_has_a_name(server: TestServer, profile: dict[str, str]) -> None:
    """CVE-2023-2431."""
    await account(server)
    answer = await server.request("POST", PODS, pod("p", securityContext={"seccompProfile": profile}))
    assert answer.status == 422
    assert "localhostProfile" in answer.json["message"]


@pytest.mark.parametrize("profile", ["../../etc/x", "/etc/x"])
async def test_a_local_profile_stays_in_its_folder(server: TestServer, profile: str) -> None:
    await account(server)
    context = {"seccompProfile": {"type": "Localhost", "localhostProfile": profile}}
    assert (await server.request("POST", PODS, pod("p", securityContext=context))).status == 422


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/x"])
async def test_a_sub_path_stays_in_its_volume(server: TestServer, path: str) -> None:
    await account(server)
    mount = {"name": "v", "mountPath": "/m", "subPath": path}
    spec: dict[str, Any] = {"volumes": [{"name": "v", "emptyDir": {}}], "containers": containers(volumeMounts=[mount])}
    assert (await server.request("POST", PODS, pod("p", **spec))).status == 422


@pytest.mark.parametrize("path", ["/data/../etc", ".."])
async def test_a_volume_of_the_host_does_not_climb(server: TestServer, path: str) -> None:
    """CVE-2026-3864 and -3865 are about drivers that are not part of this; what volumes of the host are named by is checked."""
    await account(server)
    volumes = [{"name": "v", "hostPath": {"path": path}}]
    assert (await server.request("POST", PODS, pod("p", volumes=volumes))).status == 422
    claimed = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": path}}
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": claimed}
    assert (await server.request("POST", "/api/v1/persistentvolumes", volume)).status == 422
