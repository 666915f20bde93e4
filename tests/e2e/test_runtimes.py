"""The kubelet on other containerds than this machine's, in short; `make runtimes` fetches them and runs the long form.

What a runtime can do, it says; what it cannot do, is refused by name and not left out in silence.
"""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from apimachinery.resources import NODES, PODS
from node.kubelet.cm.device_manager.api import deviceplugin_v1beta1_pb2 as pb
from tests.support import runtimes
from tests.support.containerd import BUSYBOX
from tests.support.device_plugin import RESOURCE, NullPlugin, running_device_plugin
from tests.support.node import NODE_NAME, TestNode, container, is_ready, phase_is, running_node

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=list(runtimes.SUITES))
async def shared(request: pytest.FixtureRequest) -> AsyncIterator[TestNode]:
    async with running_node(runtime=request.param) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def node(shared: TestNode) -> AsyncIterator[TestNode]:
    yield shared
    await shared.delete_everything()


async def _is_version_2(node: TestNode) -> bool:
    shown = await node.client.get(NODES, NODE_NAME)
    return str(shown["status"]["nodeInfo"]["containerRuntimeVersion"]).startswith("containerd://2.")


async def test_a_pod_becomes_ready_is_probed_and_goes(node: TestNode) -> None:
    probe = {"readinessProbe": {"exec": {"command": ["cat", "/etc/hostname"]}, "periodSeconds": 1}}
    await node.create_pod("web", script="echo started; exec sleep 1000", container=probe, terminationGracePeriodSeconds=1)
    pod = await node.wait_pod("web", is_ready, 30)
    assert pod["status"]["podIP"]
    await node.client.delete(PODS, "web", "default")
    await node.wait_gone("web", 30)


async def test_devices_that_a_plugin_names_by_cdi(node: TestNode, tmp_path: Path) -> None:
    """The runtime finds what the name means in a file of the host's; version 2 looks there by itself."""
    if not await _is_version_2(node):
        pytest.skip("this runtime has CDI switched off unless its configuration says otherwise")
    kind = f"pyb-{uuid.uuid4().hex[:8]}.example.com/null"
    edits = {"env": ["CDI=d0"], "deviceNodes": [{"path": "/dev/cdi0", "hostPath": "/dev/null"}]}
    spec = {"cdiVersion": "0.5.0", "kind": kind, "devices": [{"name": "d0", "containerEdits": edits}]}
    file = Path("/run/cdi", f"{kind.partition('.')[0]}.json")
    answer = pb.ContainerAllocateResponse(cdi_devices=[pb.CDIDevice(name=f"{kind}=d0")])
    plugin = NullPlugin(node.config.root_dir / "device-plugins", tmp_path, health={"d0": "Healthy"}, answers=answer)
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(spec))
    try:
        async with running_device_plugin(plugin):
            await plugin.register()
            async with asyncio.timeout(20):
                while (await node.client.get(NODES, NODE_NAME))["status"]["allocatable"].get(RESOURCE) != "1":  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            script = 'test -c /dev/cdi0 && echo "$CDI" > /dev/termination-log'
            await node.create_pod(
                "cdi", script=script, container={"resources": {"limits": {RESOURCE: "1"}}}, restartPolicy="Never"
            )
            pod = await node.wait_pod("cdi", phase_is("Succeeded"), 30)
            assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"] == "d0\n"
    finally:
        file.unlink()


async def test_strict_groups_are_kept_or_refused(node: TestNode) -> None:
    """Version 2 gives a container the groups of its pod and no more; the one before does not know the rule."""
    context = {"runAsUser": 1000, "runAsGroup": 3000, "supplementalGroups": [4000], "supplementalGroupsPolicy": "Strict"}
    script = "id -G > /dev/termination-log"
    await node.create_pod("strict", script=script, securityContext=context, restartPolicy="Never")
    if not await _is_version_2(node):
        pod = await node.wait_pod("strict", phase_is("Failed"), 30)
        assert pod["status"]["reason"] == "SupplementalGroupsPolicyNotSupported"
        return
    pod = await node.wait_pod("strict", phase_is("Succeeded"), 30)
    status = pod["status"]["containerStatuses"][0]
    assert sorted(status["state"]["terminated"]["message"].split()) == ["3000", "4000"]
    assert status["user"] == {"linux": {"uid": 1000, "gid": 3000, "supplementalGroups": [3000, 4000]}}


async def test_an_image_can_be_a_volume(node: TestNode) -> None:
    if not await _is_version_2(node):
        pytest.skip("image volumes came with containerd 2.1")
    volume = {"name": "tools", "image": {"reference": BUSYBOX, "pullPolicy": "IfNotPresent"}}
    mount: dict[str, Any] = {"volumeMounts": [{"name": "tools", "mountPath": "/tools"}]}
    script = (
        "ls /tools/bin | head -n 1 > /dev/termination-log; touch /tools/x 2>/dev/null && echo writable >> /dev/termination-log"
    )
    await node.create_pod("mounted", containers=[container(f"{script}; true", **mount)], volumes=[volume], restartPolicy="Never")
    pod = await node.wait_pod("mounted", phase_is("Succeeded"), 30)
    message = pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"]
    assert message.strip()
    assert "writable" not in message
