"""Certificates of pods through a real server: the kubelet's part as its node, the signer's as an administrator."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apimachinery.errors import StatusError
from apimachinery.resources import NODES, POD_CERTIFICATE_REQUESTS, PODS, SERVICE_ACCOUNTS
from apimachinery.times import format_time
from client import kubeconfig
from client.rest import MERGE, Client
from component.clock import RealClock
from component.features import from_flag
from component.x509 import Request, issue, new_ca
from node.kubelet.objects import CachedObjects
from node.kubelet.volumes.pod_certificates import PodCertificates
from tests.support.apiserver import TestServer, running_apiserver

SOURCE = {"signerName": "example.test/signer", "keyType": "ED25519", "credentialBundlePath": "bundle.pem"}


async def _pod(admin: Client, name: str, node: str) -> dict[str, Any]:
    volume = {"name": "v", "projected": {"sources": [{"podCertificate": SOURCE}]}}
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "i"}], "volumes": [volume]}
    metadata = {"name": name, "namespace": "default"}
    return await admin.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


async def _sign(admin: Client) -> None:
    """Issues the first request that comes."""
    while not (items := (await admin.list(POD_CERTIFICATE_REQUESTS, "default"))["items"]):  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    now = datetime.now(UTC)
    chain = issue(new_ca("ca"), Request("leaf")).certificate.decode()
    times = {"notBefore": now, "beginRefreshAt": now + timedelta(minutes=30), "notAfter": now + timedelta(hours=1)}
    condition = {"type": "Issued", "status": "True", "reason": "Issued", "message": "", "lastTransitionTime": format_time(now)}
    status = {"conditions": [condition], "certificateChain": chain, **{key: format_time(value) for key, value in times.items()}}
    name = items[0]["metadata"]["name"]
    await admin.patch(POD_CERTIFICATE_REQUESTS, name, {"status": status}, MERGE, namespace="default", subresource="status")


async def _refused(objects: CachedObjects, held: dict[str, Any], why: str, **changes: Any) -> None:
    spec = {**held["spec"], **changes}
    metadata = {"generateName": "req-", "namespace": "default"}
    body = {"apiVersion": "certificates.k8s.io/v1beta1", "kind": "PodCertificateRequest", "metadata": metadata, "spec": spec}
    with pytest.raises(StatusError, match=why):
        await objects.create_certificate_request("default", body)


async def test_a_node_asks_for_its_own_pods_alone() -> None:
    gates = from_flag({"PodCertificateRequest": "true"})
    served = {"certificates.k8s.io/v1beta1": "true"}
    async with (
        running_apiserver(features=gates, runtime_config=served) as server,
        Client(kubeconfig.load(server.kubeconfig), component="test") as admin,
        Client(kubeconfig.load(server.kubeconfig_for("node-token")), component="test") as kubelet,
    ):
        await _conversation(server, admin, kubelet)


async def _conversation(server: TestServer, admin: Client, kubelet: Client) -> None:
    for name in ("node-1", "node-2"):
        node = await admin.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        if name == "node-1":
            mine = node
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}}
    await admin.create(SERVICE_ACCOUNTS, account)
    pod, other = await _pod(admin, "mine", "node-1"), await _pod(admin, "other", "node-2")
    objects = CachedObjects(kubelet, RealClock())
    certificates = PodCertificates(objects, RealClock(), lambda: mine, lambda pod, reason, note: None)
    async with asyncio.TaskGroup() as group:
        group.create_task(_sign(admin))
        bundle = await certificates.bundle(pod, "v", 0, SOURCE)
    assert bundle.chain.startswith(b"-----BEGIN CERTIFICATE-----")
    (held,) = (await admin.list(POD_CERTIFICATE_REQUESTS, "default"))["items"]
    assert held["spec"]["maxExpirationSeconds"] == 86400
    uid = other["metadata"]["uid"]
    await _refused(objects, held, "which is not the requesting node", nodeName="node-2")
    await _refused(objects, held, "of another node or uid", podName="other", podUID=uid)
    await _refused(objects, held, "of another node or uid", podUID=uid)
    await _refused(objects, held, "that does not exist", podName="nobody")
    await _refused(objects, held, "that the pod does not run as", serviceAccountName="admin")
    await _refused(objects, held, "with the uid of another service account", serviceAccountUID="x")
    await _refused(objects, held, "with the uid of another node", nodeUID="x")
    await _refused(objects, held, "must be a DER-serialized PKCS#10", stubPKCS10Request="QUJD")
    foreign = {**held, "metadata": {"name": "foreign", "namespace": "default"}}
    foreign["spec"] = {**held["spec"], "nodeName": "node-2"}
    await admin.create(POD_CERTIFICATE_REQUESTS, foreign)
    with pytest.raises(StatusError, match="no relationship found"):
        await objects.certificate_request("default", "foreign")
    with pytest.raises(StatusError):
        await kubelet.list(POD_CERTIFICATE_REQUESTS, "default")
    listed = await kubelet.list(POD_CERTIFICATE_REQUESTS, "default", field_selector="spec.nodeName=node-1")
    assert [item["metadata"]["name"] for item in listed["items"]] == [held["metadata"]["name"]]
