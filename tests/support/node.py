"""A real node in the test's own process: containerd, an in-process API server and the kubelet, in a network namespace.

    async with running_node() as node:
        await node.create_pod(...); await node.wait_pod(name, lambda pod: ...)

``node.restart_kubelet()`` ends the kubelet as SIGKILL would (nothing is cleaned up) and starts another on the same runtime.
"""

import asyncio
import os
import subprocess
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.resources import CONFIG_MAPS, NODES, PODS, SECRETS, SERVICE_ACCOUNTS
from client import kubeconfig
from client.rest import Client
from node.kubelet.cgroups.manager import MOUNT, remove_tree
from node.kubelet.cgroups.systemd import slice_path
from node.kubelet.config import KubeletConfig
from node.kubelet.kubelet import Kubelet
from tests.support.apiserver import TestServer, running_apiserver
from tests.support.containerd import BUSYBOX, RunningContainerd, running_containerd
from tests.support.netns import own_network_namespace

NODE_NAME = "node-1"


@dataclass
class TestNode:
    """See the module."""

    __test__ = False

    server: TestServer
    containerd: RunningContainerd
    client: Client
    config: KubeletConfig
    kubelet: Kubelet | None = None
    _task: asyncio.Task[None] | None = None
    _group: asyncio.TaskGroup | None = field(default=None, repr=False)

    async def start_kubelet(self) -> None:
        assert self._group is not None
        self.kubelet = Kubelet(self.config, kubeconfig.load(self.server.kubeconfig_for("node-token")))
        self._task = self._group.create_task(self.kubelet.run(), name="kubelet")
        ready = self._group.create_task(self.kubelet.ready.wait())
        await asyncio.wait({self._task, ready}, return_when=asyncio.FIRST_COMPLETED, timeout=20)
        ready.cancel()
        assert self.kubelet.ready.is_set(), "the kubelet did not come up"

    async def stop_kubelet(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            self._task = None

    async def restart_kubelet(self) -> None:
        await self.stop_kubelet()
        await self.start_kubelet()

    async def create_pod(self, name: str = "", **spec: Any) -> dict[str, Any]:
        """A pod bound to this node. ``spec`` may hold ``containers`` or just a ``script`` for one busybox container."""
        labels, annotations = spec.pop("labels", {}), spec.pop("annotations", {})
        if script := spec.pop("script", None):
            spec["containers"] = [container(script, **spec.pop("container", {}))]
        metadata = {
            "name": name or f"p-{uuid.uuid4().hex[:6]}",
            "namespace": "default",
            "labels": labels,
            "annotations": annotations,
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": NODE_NAME, **spec}}
        return await self.client.create(PODS, pod)

    async def pod(self, name: str) -> dict[str, Any] | None:
        try:
            return await self.client.get(PODS, name, "default")
        except StatusError as error:
            if error.code == 404:
                return None
            raise

    async def wait_pod(self, name: str, wanted: Callable[[dict[str, Any]], bool], seconds: float = 15) -> dict[str, Any]:
        last: dict[str, Any] | None = None
        try:
            async with asyncio.timeout(seconds):
                while True:
                    last = await self.pod(name)
                    if last is not None and wanted(last):
                        return last
                    await asyncio.sleep(0.02)
        except TimeoutError:
            status = (last or {}).get("status")
            told = [f"{reason}: {note}" for reason, note in await self.events(name)]
            raise AssertionError(f"pod {name} did not get there in {seconds} s: {status}; events: {told}") from None

    async def wait_gone(self, name: str, seconds: float = 15) -> None:
        async with asyncio.timeout(seconds):
            while await self.pod(name) is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    async def delete_everything(self) -> None:
        """No pods, secrets or configMaps of a test are left; what still runs of them ends within a second."""
        await self.client.delete_collection(PODS, "default", grace=0)
        for gvr, kept in ((SECRETS, ()), (CONFIG_MAPS, ("kube-root-ca.crt",))):
            for item in (await self.client.list(gvr, "default"))["items"]:
                if item["metadata"]["name"] not in kept:
                    await self.client.delete(gvr, item["metadata"]["name"], "default")

    async def log(self, name: str, container_name: str = "main") -> str:
        found = await self.server.request("GET", f"/api/v1/namespaces/default/pods/{name}/log?container={container_name}")
        return found.body.decode()

    async def events(self, name: str) -> list[tuple[str, str]]:
        """(reason, note) of a pod's events so far."""
        answer = await self.server.request("GET", "/apis/events.k8s.io/v1/namespaces/default/events")
        mine = [item for item in answer.json["items"] if (item.get("regarding") or {}).get("name") == name]
        return [(item["reason"], item.get("note", "")) for item in mine]


def container(script: str, name: str = "main", **more: Any) -> dict[str, Any]:
    return {"name": name, "image": BUSYBOX, "imagePullPolicy": "IfNotPresent", "command": ["sh", "-c", script], **more}


def is_ready(pod: dict[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def phase_is(phase: str) -> Callable[[dict[str, Any]], bool]:
    return lambda pod: (pod.get("status") or {}).get("phase") == phase


@asynccontextmanager
async def running_node(
    apiserver: Callable[[], AbstractAsyncContextManager[TestServer]] = running_apiserver,
    *,
    runtime: str = "",
    registries: bool = False,
    **changes: Any,
) -> AsyncIterator[TestNode]:
    """``changes`` go into the KubeletConfig; ``apiserver`` starts another server than ours,
    ``runtime`` another containerd than this machine's; ``registries`` is for it. The environment's CGROUP_DRIVER is
    that of runtime and kubelet where ``changes`` name none."""
    driver = changes.setdefault("cgroup_driver", os.environ.get("CGROUP_DRIVER", "cgroupfs"))
    with own_network_namespace() as namespace, own_cgroups(namespace):
        made = running_containerd(systemd_cgroup=driver == "systemd", runtime=runtime, registries=registries)
        async with made as containerd, apiserver() as server:
            root = Path(containerd.data_dir, "kubelet")
            config = KubeletConfig(
                node_name=NODE_NAME,
                address="127.0.0.1",
                healthz_port=0,
                root_dir=root,
                pod_logs_dir=root / "pod-logs",
                runtime_endpoint=containerd.endpoint,
                node_ip="127.0.0.1",
                pod_cidr="10.244.1.0/24",
                cni_conf_dir=containerd.where.cni_conf_dir,
                cgroup_root=f"/{namespace}",
                cluster_domain="cluster.local",
                client_ca_file=server.ca_file,
            )
            config = _replaced(config, changes)
            async with Client(kubeconfig.load(server.kubeconfig), component="test") as client, asyncio.TaskGroup() as group:
                await _service_account(client, server)
                node = TestNode(server, containerd, client, config, _group=group)
                try:
                    await node.start_kubelet()
                    await _node_ready(client)
                    yield node
                finally:
                    await node.stop_kubelet()


@contextmanager
def own_cgroups(name: str) -> Iterator[None]:
    """Removes what the kubelet and the runtime made below one cgroup root."""
    try:
        yield
    finally:
        slices = slice_path(PurePosixPath("/", name))
        if (MOUNT / slices.name).is_dir() or (MOUNT / "systemd" / slices.name).is_dir():
            subprocess.run(["systemctl", "stop", slices.name], check=False, capture_output=True)
        roots = [MOUNT, *(entry for entry in MOUNT.iterdir() if entry.is_dir())]
        for root in roots:
            remove_tree(root / name)


async def _service_account(client: Client, server: TestServer) -> None:
    """What the controllers would have made: every pod has a token volume by default. A server is ready before its namespace is
    there."""
    made = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}}
    async with asyncio.timeout(20):
        while True:
            try:
                await client.create(SERVICE_ACCOUNTS, made)
                break
            except StatusError as error:
                if error.code != 404:
                    raise
            await asyncio.sleep(0.1)
    bundle = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kube-root-ca.crt", "namespace": "default"}}
    await client.create(CONFIG_MAPS, {**bundle, "data": {"ca.crt": server.ca_file.read_text()}})


async def _node_ready(client: Client) -> None:
    async with asyncio.timeout(20):
        while True:
            try:
                if is_ready(await client.get(NODES, NODE_NAME)):
                    return
            except StatusError as error:
                if error.code != 404:
                    raise
            await asyncio.sleep(0.02)


def _replaced(config: KubeletConfig, changes: dict[str, Any]) -> KubeletConfig:
    from dataclasses import replace

    return replace(config, **changes)
