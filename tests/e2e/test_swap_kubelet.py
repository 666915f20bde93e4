"""The kubelet is swap-compatible: ours serves upstream's API server, and upstream's kubelet serves ours. Both v1.20.2, where
they have been built; skipped, saying so, where not."""

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from apimachinery.resources import CONFIG_MAPS, NODES
from cli.cluster import containerd, plan, processes
from cli.cluster.layout import Layout
from cli.cluster.settings import load
from cli.demo import import_image
from node.kubelet.cgroups.manager import MOUNT, remove_tree
from tests.support import upstream
from tests.support.cluster import Cluster, environment, eventually, running_cluster
from tests.support.manifests import web
from tests.support.node import NODE_NAME, TestNode, container, is_ready, phase_is, running_node

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[TestNode]:
    upstream.require("kube-apiserver")
    async with running_node(partial(upstream.upstream_apiserver, tmp_path_factory.mktemp("upstream"))) as running:
        yield running


@pytest.mark.asyncio(loop_scope="module")
async def test_our_kubelet_serves_upstreams_api_server(node: TestNode) -> None:
    """Registration, status, lease, configuration, tokens, probes, logs and an ordered end."""
    status = (await node.client.get(NODES, NODE_NAME))["status"]
    assert status["nodeInfo"]["containerRuntimeVersion"].startswith("containerd://")
    lease = await node.server.request("GET", f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{NODE_NAME}")
    assert lease.json["spec"]["holderIdentity"] == NODE_NAME

    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf", "namespace": "default"}}
    await node.client.create(CONFIG_MAPS, {**made, "data": {"colour": "red"}})
    token = {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token", "expirationSeconds": 600}}]}}
    mounts = [{"name": "conf", "mountPath": "/conf"}, {"name": "token", "mountPath": "/token"}]
    script = "cat /conf/colour; wc -c < /token/token; trap 'exit 0' TERM; touch /ready; while true; do sleep 0.1; done"
    probe = {"exec": {"command": ["cat", "/ready"]}, "periodSeconds": 1}
    await node.create_pod(
        "web",
        containers=[container(script, volumeMounts=mounts, readinessProbe=probe)],
        volumes=[{"name": "conf", "configMap": {"name": "conf"}}, token],
        serviceAccountName="default",
    )
    ready = await node.wait_pod("web", is_ready, 30)
    assert ready["status"]["podIP"].startswith("10.244.1.")
    told = await node.log("web")
    assert told.startswith("red")
    assert int(told.removeprefix("red")) > 100, "the length of a token"

    await node.create_pod("job", script="exit 3", restartPolicy="Never")
    failed = await node.wait_pod("job", phase_is("Failed"), 30)
    assert failed["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3

    answer = await node.server.request("DELETE", "/api/v1/namespaces/default/pods/web")
    assert answer.status == 200
    await node.wait_gone("web", 20)
    await node.restart_kubelet()
    assert (await node.pod("job") or {})["status"]["phase"] == "Failed"


CONFIGURATION = """
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
cgroupRoot: {cgroup_root}
failSwapOn: false
address: 0.0.0.0
port: {port}
healthzPort: {healthz_port}
clusterDomain: cluster.local
tlsCertFile: {pki}/kubelet.crt
tlsPrivateKeyFile: {pki}/kubelet.key
authentication: {{anonymous: {{enabled: false}}, webhook: {{enabled: true}}, x509: {{clientCAFile: {pki}/ca.crt}}}}
authorization: {{mode: Webhook}}
evictionHard: {{memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}}
"""


@contextmanager
def upstreams_kubelet(cluster: Cluster, folder: Path) -> Iterator[None]:
    """Upstream's kubelet and our proxy, in the place of the process that holds both of ours."""
    program = upstream.require("kubelet")
    layout = Layout(cluster.data_dir)
    settings = load(layout.settings)
    process = processes.find(plan.NODE, layout.data_dir, layout.run)
    assert process is not None
    processes.stop(process, 10.0)
    cgroup_root = f"/{cluster.namespace}-upstream"
    for controller in MOUNT.iterdir():  # it wants to find it, in every hierarchy
        if controller.is_dir() and not controller.is_symlink():
            (controller / cgroup_root.strip("/")).mkdir(exist_ok=True)
    configuration = folder / "kubelet.yaml"
    configuration.write_text(
        CONFIGURATION.format(
            cgroup_root=cgroup_root, port=settings.kubelet_port, healthz_port=settings.kubelet_healthz_port, pki=layout.pki
        )
    )
    argv = [
        str(program),
        f"--config={configuration}",
        f"--kubeconfig={layout.kubeconfigs / 'kubelet.kubeconfig'}",
        "--container-runtime=remote",
        f"--container-runtime-endpoint=unix://{containerd.socket_of(layout, settings)}",
        f"--root-dir={layout.kubelet}",
        f"--hostname-override={settings.node_name}",
        f"--node-ip={settings.node_ip}",
    ]
    proxy = [sys.executable, "-m", "cli", "proxy", *plan.proxy_flags(layout, settings)]
    with (folder / "kubelet.log").open("wb") as log, (folder / "proxy.log").open("wb") as proxy_log:
        running = [
            subprocess.Popen(cluster.inside(*argv), stdout=log, stderr=log),
            subprocess.Popen(cluster.inside(*proxy), stdout=proxy_log, stderr=proxy_log, env=environment()),
        ]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()
        for controller in MOUNT.iterdir():
            if controller.is_dir() and not controller.is_symlink():
                remove_tree(controller / cgroup_root.strip("/"))


def test_upstreams_kubelet_serves_our_api_server(tmp_path: Path) -> None:
    """A Deployment behind a Service answers, logs, is entered and goes, with upstream's kubelet on the node."""
    upstream.require("kubelet")
    with running_cluster() as cluster:
        import_image(Layout(cluster.data_dir), load(Layout(cluster.data_dir).settings))
        with upstreams_kubelet(cluster, tmp_path):

            def of_version() -> bool:
                (found,) = cluster.get("nodes")["items"]
                ready = any(each["type"] == "Ready" and each["status"] == "True" for each in found["status"]["conditions"])
                return bool(ready and found["status"]["nodeInfo"]["kubeletVersion"] == upstream.VERSION)

            eventually(of_version, 60)
            cluster.apply(web("web"))
            cluster.kubectl("rollout", "status", "deployment/web", "--timeout=60s", timeout=70)
            address = cluster.get("service", "web")["spec"]["clusterIP"]
            eventually(lambda: "Hello from web-" in cluster.curl(f"http://{address}/"), 30)
            name = cluster.get("pods", "-l", "app=web")["items"][0]["metadata"]["name"]
            assert cluster.kubectl("exec", name, "--", "hostname").strip() == name
            assert cluster.kubectl("logs", name) == ""
            cluster.kubectl("delete", "deployment", "web", "--timeout=60s", timeout=70)
            eventually(lambda: not cluster.get("pods", "-l", "app=web")["items"], 60)
        assert upstream.VERSION in cluster.kubectl("get", "nodes")
