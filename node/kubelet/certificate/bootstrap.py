"""A node's first certificate: a kubeconfig with a bootstrap token asks for it, and a kubeconfig with the certificate results.

``__main__`` calls it before the kubelet is made. Every step may be the last before a kill: the key waits on disk until its
certificate is stored, the request is named by the key, and the kubeconfig is written last and atomically.
"""

import asyncio
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from apimachinery import errors
from client import kubeconfig
from client.kubeconfig import Config, KubeconfigError
from client.rest import Client
from component import logs, x509
from component.clock import Clock
from component.tasks import Backoff
from component.x509 import KeyPair, write_private
from node.kubelet.certificate.request import CLIENT_SIGNER, CertificateRequestError, Wanted, obtain
from node.kubelet.certificate.store import CertificateStore, split

CLIENT_STORE = "kubelet-client"
_KEY_FILE = "kubelet-client.key.tmp"  # upstream's name
_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Files:
    """``kubeconfig`` is what will be written, ``bootstrap`` what there is, ``certificates`` the folder of the store."""

    kubeconfig: Path
    bootstrap: Path
    certificates: Path


def is_still_valid(path: Path, now: datetime) -> bool:
    """Whether a kubeconfig can be used: its client certificate, if that is its way, is there and has not expired."""
    if not path.exists():
        return False
    try:
        config = kubeconfig.load(path)
        if config.certificate_file is None and config.certificate_data is None:
            return bool(config.token or config.token_file or config.exec_plugin)
        data = config.certificate_data or Path(config.certificate_file or "").read_bytes()
        certificate = x509.parse(data)
    except (KubeconfigError, OSError, ValueError) as error:
        _log.warning("The kubeconfig cannot be used, joining again", path=str(path), err=error)
        return False
    if certificate.not_after <= now:
        _log.warning(
            "The client certificate has expired, joining again", path=str(path), expired=certificate.not_after.isoformat()
        )
        return False
    return True


async def bootstrap(files: Files, node: str, clock: Clock) -> None:
    """Until there is a certificate and a kubeconfig for it; tries again for as long as it takes.

    :raises KubeconfigError: when the bootstrap kubeconfig cannot be used.
    """
    credentials = await asyncio.to_thread(kubeconfig.load, files.bootstrap)
    wanted, backoff = Wanted(CLIENT_SIGNER, node), Backoff(1.0, 60.0, clock=clock)
    _log.info("Asking for a client certificate", node=node, server=credentials.server)
    while True:
        key = await asyncio.to_thread(_key, files.certificates)
        try:
            async with Client(credentials, component="kubelet-bootstrap", clock=clock) as client:
                certificate = await obtain(client, clock, key, wanted, stable=True)
            break
        except CertificateRequestError as error:
            # a denied request stays denied: the next one is for another key
            _log.error("No client certificate, asking again", err=error)
            await asyncio.to_thread(forget_key, files.certificates)
        except (errors.StatusError, ConnectionError) as error:
            _log.error("Cannot ask for a client certificate yet", server=credentials.server, err=error)
        await clock.sleep(backoff.step())
    await asyncio.to_thread(_finish, files, credentials, KeyPair(certificate, key), clock.now())
    _log.info("Joined the cluster", kubeconfig=str(files.kubeconfig))


def forget_key(folder: Path) -> None:
    (folder / _KEY_FILE).unlink(missing_ok=True)


def _key(folder: Path) -> bytes:
    """The key of a request that may have been made before, or a new one, which is on disk before it is used."""
    path = folder / _KEY_FILE
    try:
        key = path.read_bytes()
        x509.public_key(key)
    except (OSError, ValueError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        key = x509.new_key()
        write_private(path, key)
    return key


def _finish(files: Files, credentials: Config, pair: KeyPair, now: datetime) -> None:
    store = CertificateStore(files.certificates, CLIENT_STORE)
    store.update(pair, now)
    write_kubeconfig(files.kubeconfig, credentials, store.path)
    forget_key(files.certificates)


def write_kubeconfig(path: Path, credentials: Config, certificate: Path) -> None:
    """A kubeconfig for the same server and the certificate of the store."""
    ca = credentials.ca_data
    document: dict[str, Any] = kubeconfig.build(credentials.server, ca=ca, cluster="default-cluster", user="default-auth")
    cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
    if ca is None and credentials.ca_file is not None:
        cluster["certificate-authority"] = str(Path(credentials.ca_file).absolute())
    if credentials.insecure:
        cluster["insecure-skip-tls-verify"] = True
    if credentials.tls_server_name:
        cluster["tls-server-name"] = credentials.tls_server_name
    user["client-certificate"] = user["client-key"] = str(certificate)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    kubeconfig.save(document, path)


def adopted(credentials: Config, store: CertificateStore, now: datetime) -> Config:
    """For rotation: credentials that use the store, which is given the kubeconfig's certificate when it holds none.

    A kubeconfig without a client certificate is left as it is. Blocks.
    """
    if credentials.certificate_file == str(store.path):
        return credentials
    current = store.current()
    if current is None or x509.parse(current.certificate).not_after <= now:
        pair = _given(credentials)
        if pair is None:
            return credentials
        store.update(pair, now)
    path = str(store.path)
    return replace(credentials, certificate_file=path, key_file=path, certificate_data=None, key_data=None, source=None)


def _given(credentials: Config) -> KeyPair | None:
    try:
        certificate = credentials.certificate_data or Path(credentials.certificate_file or "").read_bytes()
        key = credentials.key_data or Path(credentials.key_file or "").read_bytes()
    except OSError:
        return None
    return split(certificate + b"\n" + key)
