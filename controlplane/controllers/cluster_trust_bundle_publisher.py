"""cluster_trust_bundle_publisher: the authority of the API server's serving certificate, as a ClusterTrustBundle for pods.

Its name has a hash of its content, so that a new authority is a new bundle; the others are removed once it is there.
"""

import hashlib

from apimachinery.errors import StatusError
from apimachinery.meta import Object, name_of, uid_of
from apimachinery.resources import CLUSTER_TRUST_BUNDLES
from controlplane.controllers.controller import Environment, Loop

SIGNER = "kubernetes.io/kube-apiserver-serving"
_KEY = "#bundle"
_AGAIN = 60.0


def bundle_name(signer: str, bundle: str) -> str:
    """``<signer, with colons>:<the beginning of a hash>``. Pure."""
    return f"{signer.replace('/', ':')}:{hashlib.sha256(bundle.encode()).hexdigest()[:12]}"


class ClusterTrustBundlePublisher:
    """One key; asked again when somebody changes a bundle, and every minute."""

    name = "kube-apiserver-serving-clustertrustbundle-publisher-controller"

    def __init__(self, env: Environment, bundle: str) -> None:
        self._client, self._bundle = env.client, bundle
        self._name = bundle_name(SIGNER, bundle)
        self._bundles = env.informers.informer(CLUSTER_TRUST_BUNDLES, field_selector=f"spec.signerName={SIGNER}")
        self._loop = Loop(self.name, self.reconcile, env, workers=1)
        self._bundles.add_handler(
            on_add=lambda new: self._loop.add(_KEY),
            on_update=lambda old, new: self._loop.add(_KEY),
            on_delete=lambda gone: self._loop.add(_KEY),
        )

    async def run(self) -> None:
        self._loop.add(_KEY)
        await self._loop.run()

    async def reconcile(self, key: str) -> float | None:
        wanted = {"signerName": SIGNER, "trustBundle": self._bundle}
        held = self._bundles.lister.get(self._name)
        try:
            if held is None:
                await self._client.create(CLUSTER_TRUST_BUNDLES, self._made(wanted))
            elif held.get("spec") != wanted:
                await self._client.update(CLUSTER_TRUST_BUNDLES, {**held, "spec": wanted})
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise
        for other in self._bundles.lister.list():
            if name_of(other) != self._name:
                await self._remove(other)
        return _AGAIN

    def _made(self, spec: Object) -> Object:
        head = {"apiVersion": "certificates.k8s.io/v1beta1", "kind": "ClusterTrustBundle"}
        return {**head, "metadata": {"name": self._name}, "spec": spec}

    async def _remove(self, other: Object) -> None:
        try:
            await self._client.delete(CLUSTER_TRUST_BUNDLES, name_of(other), preconditions={"uid": uid_of(other)})
        except StatusError as error:
            if error.code not in (404, 409):
                raise
