"""The store of one cluster as ``up``, ``down``, ``status`` and ``snapshot`` see it: SQLite in the API server, an etcd of ours, or
somebody else's etcd."""

import http.client
import shutil
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.cluster.layout import Layout
from cli.cluster.plan import ETCD, client_files
from cli.cluster.processes import ProcessSpec
from cli.cluster.settings import Settings

if TYPE_CHECKING:
    from controlplane.apiserver.config import Storage

NAME = "default"  # of the only member
_SECONDS = 2.0


def specification(layout: Layout, settings: Settings) -> ProcessSpec:
    """Make the keys of the private etcd and say how it is started."""
    program = shutil.which("etcd")
    if program is None:
        raise click.ClickException("etcd is not installed: apt-get install etcd-server")
    from bootstrap.etcd_pki import ensure_etcd_pki

    ensure_etcd_pki(layout.etcd_pki)
    layout.etcd.mkdir(mode=0o700, exist_ok=True)
    return ProcessSpec(ETCD, command(layout, settings, program), layout.logs / "etcd.log")


def command(layout: Layout, settings: Settings, program: str) -> list[str]:
    """One member that only this machine reaches. Everybody must show a certificate, the member itself included."""
    clients, peers = settings.own_etcd_url, f"https://127.0.0.1:{settings.etcd_peer_port}"
    keys = layout.etcd_pki
    return [
        program,
        f"--name={NAME}",
        f"--data-dir={layout.etcd / 'data'}",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster={NAME}={peers}",
        f"--cert-file={keys / 'server.crt'}",
        f"--key-file={keys / 'server.key'}",
        f"--trusted-ca-file={keys / 'ca.crt'}",
        "--client-cert-auth=true",
        f"--peer-cert-file={keys / 'peer.crt'}",
        f"--peer-key-file={keys / 'peer.key'}",
        f"--peer-trusted-ca-file={keys / 'ca.crt'}",
        "--peer-client-cert-auth=true",
        "--quota-backend-bytes=8589934592",  # as large as etcd recommends; a full one is read-only
        "--logger=zap",
        "--log-level=warn",
    ]


def health(layout: Layout, settings: Settings) -> str:
    """ "ok", or what the private etcd says of itself. Raises OSError when it does not answer."""
    keys = layout.etcd_pki
    context = ssl.create_default_context(cafile=str(keys / "ca.crt"))
    context.load_cert_chain(keys / "apiserver-etcd-client.crt", keys / "apiserver-etcd-client.key")
    connection = http.client.HTTPSConnection("127.0.0.1", settings.etcd_port, timeout=_SECONDS, context=context)
    try:
        connection.request("GET", "/health")
        answer = connection.getresponse()
        said = answer.read().decode(errors="replace").strip()
    except http.client.HTTPException as error:
        raise OSError(str(error)) from error
    finally:
        connection.close()
    return "ok" if answer.status == 200 else said[:80] or f"status {answer.status}"


def check_same_store(layout: Layout, before: Settings, settings: Settings) -> None:
    """A cluster whose objects are in another store would find none, and remove its pods. Raises click.ClickException."""
    if not layout.settings.exists() or before.store == settings.store:
        return
    moved = {"sqlite": layout.state_db.exists(), "etcd": False, "etcd servers": not layout.state_db.exists()}  # by `migrate`
    if moved[settings.store]:
        return
    was = {"sqlite": str(layout.state_db), "etcd": str(layout.etcd)}.get(before.store, before.etcd_servers)
    raise click.ClickException(
        f"the objects of this cluster are in {was}. To take them along: pybernetes down, then pybernetes migrate, then take what "
        f"is left of the old store away from {layout.data_dir}, and up with the new flags"
    )


def store(layout: Layout, settings: Settings) -> "Storage":
    """Where the objects of the cluster are, for commands that read the store themselves."""
    from controlplane.apiserver.config import Storage
    from controlplane.apiserver.storage.backends.etcd.config import EtcdConfig, checked

    if settings.store == "sqlite":
        return Storage("sqlite", layout.state_db)
    servers = tuple(settings.etcd_servers.split(",")) if settings.etcd_servers else (settings.own_etcd_url,)
    ca, certificate, key = (Path(file) if file else None for file in client_files(layout, settings))
    try:
        return Storage("etcd3", etcd=checked(EtcdConfig(servers, ca, certificate, key, compact_every=0)))
    except ValueError as error:
        raise click.ClickException(str(error)) from None
