"""The stock kubectl watches, undoes, pauses and scales what the controllers do."""

import asyncio
import shutil

import pytest

from apimachinery.resources import DEPLOYMENTS
from tests.integration.controllers.test_deployment import deployment
from tests.support.apiserver import TestServer, running_apiserver
from tests.support.control_plane import Kubelet, add_node, control_plane, eventually

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")


async def run(server: TestServer, *arguments: str) -> str:
    code, out, err = await server.kubectl(*arguments)
    assert code == 0, err
    return out


async def test_rollout() -> None:
    async with running_apiserver() as server, control_plane(server) as client:
        await add_node(client)
        kubelet = asyncio.ensure_future(Kubelet(client).run())
        await client.create(DEPLOYMENTS, deployment())
        assert 'deployment "web" successfully rolled out' in await run(
            server, "rollout", "status", "deployment/web", "--timeout=10s"
        )
        await run(server, "set", "image", "deployment/web", "c=web:2")
        await run(server, "rollout", "status", "deployment/web", "--timeout=10s")
        history = await run(server, "rollout", "history", "deployment/web")
        assert [line.split()[0] for line in history.splitlines() if line[:1].isdigit()] == ["1", "2"]
        await run(server, "rollout", "undo", "deployment/web")
        await run(server, "rollout", "status", "deployment/web", "--timeout=10s")
        image = await run(server, "get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[0].image}")
        assert image == "web:1"
        await run(server, "rollout", "pause", "deployment/web")

        async def paused() -> bool:
            held = await client.get(DEPLOYMENTS, "web", "default")
            return any(each["reason"] == "DeploymentPaused" for each in held["status"]["conditions"])

        await eventually(paused)
        await run(server, "set", "image", "deployment/web", "c=web:3")
        await run(server, "scale", "deployment/web", "--replicas=4")

        async def scaled() -> bool:
            held = await client.get(DEPLOYMENTS, "web", "default")
            return bool(held["status"].get("availableReplicas") == 4 and not held["status"].get("updatedReplicas"))

        await eventually(scaled)
        await run(server, "rollout", "resume", "deployment/web")
        await run(server, "rollout", "status", "deployment/web", "--timeout=10s")
        described = await run(server, "describe", "deployment", "web")
        assert "ScalingReplicaSet" in described
        assert "Scaled up replica set" in described
        await run(server, "delete", "deployment", "web", "--cascade=foreground", "--timeout=10s")
        kubelet.cancel()
        await asyncio.gather(kubelet, return_exceptions=True)
