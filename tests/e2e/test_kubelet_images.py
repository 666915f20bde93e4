"""Pulling images through a real containerd from a registry on loopback: policies, credentials, back-off."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from apimachinery.resources import SECRETS
from bootstrap import images
from tests.support.node import TestNode, container, is_ready, running_node
from tests.support.registry import Registry, running_registry

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="module")]

FILES = [images.File("bin", directory=True, mode=0o755), images.File("tmp", directory=True, mode=0o1777)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[TestNode]:
    async with running_node() as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def node(shared: TestNode) -> AsyncIterator[TestNode]:
    yield shared
    await shared.delete_everything()


def _files() -> list[images.File]:
    links = [images.File(f"bin/{name}", link="busybox") for name in ("sh", "sleep")]
    return [*FILES, images.File("bin/busybox", images.BUSYBOX.read_bytes(), 0o755), *links]


def _spec(image: str, **more: Any) -> dict[str, Any]:
    pulled = container("exec sleep 1000", image=image, **more)
    return {"containers": [pulled], "terminationGracePeriodSeconds": 1}


def _waiting(pod: dict[str, Any]) -> str:
    listed = pod["status"].get("containerStatuses") or [{"state": {}}]
    return str(listed[0]["state"].get("waiting", {}).get("reason"))


def _manifests(registry: Registry) -> int:
    return len([path for _, path in registry.pulled if "/manifests/app" not in path and "/manifests/1" in path])


async def test_an_image_is_pulled_once_or_always(node: TestNode, tmp_path: Path) -> None:
    async with running_registry() as registry:
        registry.add("team/app", "1", _files(), tmp_path)
        image = registry.reference("team/app", "1")
        await node.create_pod("first", **_spec(image, imagePullPolicy="IfNotPresent"))
        pod = await node.wait_pod("first", is_ready, 20)
        assert pod["status"]["containerStatuses"][0]["image"] == image
        assert pod["status"]["containerStatuses"][0]["imageID"].startswith(image.rpartition(":")[0] + "@sha256:")
        seen = await node.events("first")
        assert ("Pulling", f'Pulling image "{image}"') in seen
        assert any(reason == "Pulled" and note.startswith(f'Successfully pulled image "{image}" in ') for reason, note in seen)
        asked = _manifests(registry)
        await node.create_pod("second", **_spec(image, imagePullPolicy="IfNotPresent"))
        await node.wait_pod("second", is_ready, 20)
        assert _manifests(registry) == asked
        await node.create_pod("third", **_spec(image, imagePullPolicy="Always"))
        await node.wait_pod("third", is_ready, 20)
        assert _manifests(registry) > asked


async def test_a_pull_secret_opens_the_registry(node: TestNode, tmp_path: Path) -> None:
    async with running_registry({"me": "right"}) as registry:
        registry.add("private", "1", _files(), tmp_path)
        image = registry.reference("private", "1")
        await node.create_pod("stranger", **_spec(image))
        await node.wait_pod("stranger", lambda pod: _waiting(pod) == "ErrImagePull", 20)
        await node.client.create(SECRETS, registry.secret("me", "right"))
        await node.create_pod("friend", **_spec(image), imagePullSecrets=[{"name": "login"}])
        await node.wait_pod("friend", is_ready, 20)
        assert {user for user, _ in registry.pulled} == {"me"}


async def test_what_does_not_exist_is_backed_off_and_named(node: TestNode) -> None:
    async with running_registry() as registry:
        image = registry.reference("nothing", "1")
        await node.create_pod("lost", **_spec(image), imagePullSecrets=[{"name": "absent"}])
        await node.wait_pod("lost", lambda pod: _waiting(pod) == "ErrImagePull", 20)
        pod = await node.wait_pod("lost", lambda pod: _waiting(pod) == "ImagePullBackOff", 30)
        message = pod["status"]["containerStatuses"][0]["state"]["waiting"]["message"]
        assert message.startswith(f'Back-off pulling image "{image}"')
        reasons = [reason for reason, _ in await node.events("lost")]
        assert {"Pulling", "Failed", "BackOff", "FailedToRetrieveImagePullSecret"} <= set(reasons)
