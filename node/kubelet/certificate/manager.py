"""Which certificates of a kubelet are kept fresh, and by whose credentials. ``kubelet`` makes one and runs its rotations."""

import asyncio
from functools import partial
from pathlib import Path

from apimachinery import errors
from client import kubeconfig
from client.kubeconfig import Config
from client.rest import Client
from component import logs
from component.clock import Clock
from component.metrics import Registry
from node.kubelet.certificate import self_signed
from node.kubelet.certificate.bootstrap import CLIENT_STORE, adopted
from node.kubelet.certificate.request import CLIENT_SIGNER, SERVING_SIGNER, Wanted, names_of, obtain
from node.kubelet.certificate.rotation import Rotation, RotationMetrics
from node.kubelet.certificate.store import CertificateStore
from node.kubelet.config import KubeletConfig

SERVER_STORE = "kubelet-server"
_log = logs.get(__name__)


class Certificates:
    """``rotations`` by ``client`` and ``server``, as far as the configuration asks for them; known after :meth:`start`."""

    def __init__(self, config: KubeletConfig, clock: Clock, bootstrap: Path | None = None) -> None:
        self._config, self._clock, self._bootstrap = config, clock, bootstrap
        self._server_store = CertificateStore(config.certificates, SERVER_STORE)
        self.rotations: dict[str, Rotation] = {}

    def credentials(self, given: Config) -> Config:
        """Those to work with: the store's, where the client certificate is to be renewed. Blocks."""
        if not self._config.rotate_certificates:
            return given
        store = CertificateStore(self._config.certificates, CLIENT_STORE)
        used = adopted(given, store, self._clock.now())
        if used.certificate_file != str(store.path):
            _log.warning("rotateCertificates has nothing to rotate: the kubeconfig has no client certificate")
        return used

    def start(self, client: Client, metrics: Registry) -> None:
        """Make the rotations; their requests go through ``client``, which is never without a certificate that is still good."""
        config, node = self._config, self._config.node_name
        if config.rotate_certificates:
            store = CertificateStore(config.certificates, CLIENT_STORE)
            self.rotations["client"] = Rotation(
                store, lambda: Wanted(CLIENT_SIGNER, node), partial(self._obtain_client, client), self._clock
            )
        if config.server_tls_bootstrap:
            names, addresses = names_of((config.node_ip,), node)
            wanted = Wanted(SERVING_SIGNER, node, names, addresses)
            self.rotations["server"] = Rotation(
                self._server_store, lambda: wanted, partial(obtain, client, self._clock), self._clock
            )
        for name, rotation in self.rotations.items():
            metrics.collectors.register(RotationMetrics(name, rotation, self._clock))

    async def _obtain_client(self, client: Client, key: bytes, wanted: Wanted) -> bytes:
        """By the certificate there is; by the bootstrap credentials when that has expired."""
        try:
            return await obtain(client, self._clock, key, wanted)
        except errors.StatusError as error:
            if error.code != 401 or self._bootstrap is None:
                raise
        _log.warning("The client certificate is not believed any more, joining again")
        credentials = await asyncio.to_thread(kubeconfig.load, self._bootstrap)
        async with Client(credentials, component="kubelet-bootstrap", clock=self._clock) as joining:
            return await obtain(joining, self._clock, key, wanted, stable=True)

    async def serving_files(self) -> tuple[Path, Path]:
        """Certificate and key for the kubelet's port. Waits for the cluster's, where it is to come from there."""
        rotation = self.rotations.get("server")
        if rotation is None:
            return await asyncio.to_thread(self_signed.serving_files, self._config)
        if await asyncio.to_thread(self._server_store.current) is None:
            _log.info("no serving certificate available for the kubelet yet: waiting for the cluster to sign one")
            await rotation.available.wait()
        return self._server_store.path, self._server_store.path
