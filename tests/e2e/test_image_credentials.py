"""Credentials for a real docker-registry with TLS and passwords: from secrets, from programs of the node's owner, and who may use
what others have pulled."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from apimachinery.gvk import GroupVersionResource
from apimachinery.resources import CLUSTER_ROLES, SECRETS, SERVICE_ACCOUNTS
from bootstrap import images
from client.rest import MERGE
from tests.support.docker_registry import PASSWORD, USER, DockerRegistry, running_docker_registry
from tests.support.node import TestNode, container, is_ready, running_node

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="module")]

PORT = 5443
BINDINGS = GroupVersionResource("rbac.authorization.k8s.io", "v1", "clusterrolebindings")
PROGRAM = """#!/bin/sh
cat >> {folder}/asked
echo >> {folder}/asked
cat {folder}/answer
"""
CONFIG = {
    "apiVersion": "kubelet.config.k8s.io/v1",
    "kind": "CredentialProviderConfig",
    "providers": [
        {
            "name": "helper",
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "matchImages": [f"127.0.0.1:{PORT}/by-program"],
            "defaultCacheDuration": "1h",
            "tokenAttributes": {
                "serviceAccountTokenAudience": "registry",
                "requireServiceAccount": True,
                "cacheType": "ServiceAccount",
                "requiredServiceAccountAnnotationKeys": ["example.test/role"],
            },
        }
    ],
}


@dataclass
class World:
    node: TestNode
    registry: DockerRegistry
    folder: Path

    def asked(self) -> list[dict[str, Any]]:
        file = self.folder / "asked"
        return [json.loads(line) for line in file.read_text().splitlines() if line] if file.exists() else []

    async def push(self, name: str) -> str:
        links = [images.File(f"bin/{each}", link="busybox") for each in ("sh", "sleep")]
        files = [images.File("bin", directory=True, mode=0o755), images.File("bin/busybox", images.BUSYBOX.read_bytes(), 0o755)]
        marker = images.File("name", name.encode(), 0o644)  # so that each image is another one
        return await self.registry.push(name, "1", [*files, *links, marker], self.folder)

    async def secret(self, name: str, password: str = PASSWORD) -> None:
        auth = base64.b64encode(f"{USER}:{password}".encode()).decode()
        document = json.dumps({"auths": {self.registry.host: {"auth": auth}}})
        data = {".dockerconfigjson": base64.b64encode(document.encode()).decode()}
        metadata = {"name": name, "namespace": "default"}
        made = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/dockerconfigjson"}
        await self.node.client.create(SECRETS, {**made, "data": data})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    folder = tmp_path_factory.mktemp("registry")
    programs = folder / "programs"
    programs.mkdir()
    (programs / "helper").write_text(PROGRAM.format(folder=folder))
    (programs / "helper").chmod(0o755)
    (folder / "providers.yaml").write_text(json.dumps(CONFIG))
    answer = {
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "kind": "CredentialProviderResponse",
        "cacheKeyType": "Registry",
        "auth": {f"127.0.0.1:{PORT}": {"username": USER, "password": PASSWORD}},
    }
    (folder / "answer").write_text(json.dumps(answer))
    changes = {"image_credential_provider_config": folder / "providers.yaml", "image_credential_provider_bin_dir": programs}
    async with running_node(registries=True, **changes) as node, running_docker_registry(folder, PORT) as registry:
        registry.trust(Path(node.containerd.data_dir, "certs.d"))
        yield World(node, registry, folder)


@pytest_asyncio.fixture(loop_scope="module")
async def world(shared: World) -> AsyncIterator[World]:
    yield shared
    await shared.node.delete_everything()


def _spec(image: str, policy: str = "IfNotPresent", *secrets: str) -> dict[str, Any]:
    pulled = container("exec sleep 1000", image=image, imagePullPolicy=policy)
    named = {"imagePullSecrets": [{"name": name} for name in secrets]} if secrets else {}
    return {"containers": [pulled], "terminationGracePeriodSeconds": 1, **named}


def _waits(reason: str) -> Any:
    def wanted(pod: dict[str, Any]) -> bool:
        listed = pod["status"].get("containerStatuses") or [{"state": {}}]
        return str(listed[0]["state"].get("waiting", {}).get("reason")) == reason

    return wanted


async def test_what_a_secret_has_pulled_is_not_for_everybody(world: World) -> None:
    node, image = world.node, await world.push("by-secret")
    await world.secret("right")
    await world.secret("wrong", "guess")
    await node.create_pod("stranger", **_spec(image))
    await node.wait_pod("stranger", _waits("ErrImagePull"), 20)
    await node.create_pod("friend", **_spec(image, "IfNotPresent", "right"))
    await node.wait_pod("friend", is_ready, 20)
    for turn in ("first", "again"):
        await node.create_pod(f"thief-{turn}", **_spec(image))
        await node.create_pod(f"guess-{turn}", **_spec(image, "IfNotPresent", "wrong"))
        await node.create_pod(f"never-{turn}", **_spec(image, "Never"))
        await node.wait_pod(f"thief-{turn}", _waits("ErrImagePull"), 20)
        await node.wait_pod(f"guess-{turn}", _waits("ErrImagePull"), 20)
        pod = await node.wait_pod(f"never-{turn}", _waits("ErrImageNeverPull"), 20)
        message = pod["status"]["containerStatuses"][0]["state"]["waiting"]["message"]
        why = "is present with pull policy of Never but does not have the proper credentials to access the image"
        assert message == f'Container image "{image}" {why}'
        await node.restart_kubelet()  # what it knows is on disk
    await world.secret("copy")
    await node.create_pod("copied", **_spec(image, "Never", "copy"))
    await node.wait_pod("copied", is_ready, 20)


async def _let_nodes_ask_for(node: TestNode, audience: str) -> None:
    """A node may have tokens for audiences that its pods name, and for others that RBAC grants it."""
    rule = {"apiGroups": [""], "resources": [audience], "verbs": ["request-serviceaccounts-token-audience"]}
    group = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "audience"}
    named = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "audience"}}
    await node.client.create(CLUSTER_ROLES, {**named, "kind": "ClusterRole", "rules": [rule]})
    await node.client.create(BINDINGS, {**named, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [group]})


async def test_a_program_gives_credentials_for_an_account(world: World) -> None:
    node = world.node
    image, other = await world.push("by-program/a"), await world.push("by-program/b")
    await node.create_pod("unasked", **_spec(image))
    await node.wait_pod("unasked", _waits("ErrImagePull"), 20)
    assert world.asked() == [], "its account has not asked for it"
    await _let_nodes_ask_for(node, "registry")
    annotated = {"metadata": {"annotations": {"example.test/role": "puller"}}}
    await node.client.patch(SERVICE_ACCOUNTS, "default", annotated, MERGE, namespace="default")
    await asyncio.sleep(5.5)  # as long as the kubelet remembers objects
    await node.create_pod("asked", **_spec(image))
    await node.wait_pod("asked", is_ready, 20)
    (request,) = world.asked()
    assert request["image"] == image.rpartition(":")[0]
    assert request["serviceAccountAnnotations"] == {"example.test/role": "puller"}
    claims = json.loads(base64.urlsafe_b64decode(request["serviceAccountToken"].split(".")[1] + "=="))
    assert claims["aud"] == ["registry"]
    assert claims["kubernetes.io"]["pod"]["name"] == "asked"
    await node.create_pod("other", **_spec(other))
    await node.wait_pod("other", is_ready, 20)
    assert len(world.asked()) == 1, "the answer was for the registry"
    await node.create_pod("again", **_spec(image, "Never"))
    await node.wait_pod("again", is_ready, 20)
