"""The authority of the API server is published as a ClusterTrustBundle, and old requests for certificates of pods go."""

import asyncio
import base64
from datetime import UTC, datetime
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding

from apimachinery.resources import CLUSTER_TRUST_BUNDLES, POD_CERTIFICATE_REQUESTS
from client.events import Recorder
from client.informer import InformerFactory
from client.kubeconfig import load
from client.rest import Client
from component.clock import FakeClock
from component.features import from_flag
from component.x509 import new_ca
from controlplane.controllers.cluster_trust_bundle_publisher import SIGNER, bundle_name
from controlplane.controllers.controller import Environment
from controlplane.controllers.pod_certificate_request_cleaner import PodCertificateRequestCleaner
from tests.support.apiserver import running_apiserver
from tests.support.control_plane import control_plane, eventually

GATES = from_flag({"ClusterTrustBundle": "true", "PodCertificateRequest": "true"})
SERVED = {"certificates.k8s.io/v1beta1": "true"}
CONTROLLERS = "kube-apiserver-serving-clustertrustbundle-publisher,podcertificaterequest-cleaner,serviceaccount"


def _bundle(name: str, text: str) -> dict[str, Any]:
    head = {"apiVersion": "certificates.k8s.io/v1beta1", "kind": "ClusterTrustBundle", "metadata": {"name": name}}
    return {**head, "spec": {"signerName": SIGNER, "trustBundle": text}}


def _request() -> dict[str, Any]:
    stub = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(ed25519.Ed25519PrivateKey.generate(), None)
    names = ("podName", "podUID", "serviceAccountName", "serviceAccountUID", "nodeName", "nodeUID")
    spec = {**dict.fromkeys(names, "x"), "signerName": "example.test/signer"}
    spec["stubPKCS10Request"] = base64.b64encode(stub.public_bytes(Encoding.DER)).decode()
    metadata = {"name": "old", "namespace": "default"}
    return {"apiVersion": "certificates.k8s.io/v1beta1", "kind": "PodCertificateRequest", "metadata": metadata, "spec": spec}


async def test_bundles_and_old_requests() -> None:
    async with running_apiserver(features=GATES, runtime_config=SERVED) as server:
        authority = server.ca_file.read_text()
        name, stale = bundle_name(SIGNER, authority), bundle_name(SIGNER, "before")
        async with control_plane(server, [f"--root-ca-file={server.ca_file}"], schedule=False, controllers=CONTROLLERS) as client:

            async def published() -> bool:
                items = (await client.list(CLUSTER_TRUST_BUNDLES))["items"]
                specs = {item["metadata"]["name"]: item["spec"] for item in items}
                return specs == {name: {"signerName": SIGNER, "trustBundle": authority}}

            await eventually(published)
            await client.create(CLUSTER_TRUST_BUNDLES, _bundle(stale, new_ca("old").certificate.decode()))
            await eventually(published)
            await client.delete(CLUSTER_TRUST_BUNDLES, name)
            await eventually(published)
            await client.create(POD_CERTIFICATE_REQUESTS, _request())
        clock = FakeClock(datetime.now(UTC))
        async with Client(load(server.kubeconfig), component="test", clock=clock) as client:
            informers = InformerFactory(client, clock)
            cleaner = PodCertificateRequestCleaner(Environment(client, informers, lambda name: Recorder(client, name), clock))
            running = asyncio.ensure_future(informers.run())
            await informers.informer(POD_CERTIFICATE_REQUESTS).wait_synced()
            await cleaner.reconcile("")
            assert (await client.list(POD_CERTIFICATE_REQUESTS, "default"))["items"], "it is young"
            clock.jump(901)
            await cleaner.reconcile("")
            assert (await client.list(POD_CERTIFICATE_REQUESTS, "default"))["items"] == []
            running.cancel()
            await asyncio.wait({running})
