"""The keys of an etcd that ``cli up`` owns: an authority of its own, because whoever it vouches for may read everything.

Files and names are kubeadm's (``pki/etcd``). What exists is kept; a certificate near its end is issued anew, and taken up by
etcd at the next connection.
"""

from datetime import UTC, datetime
from pathlib import Path

from bootstrap.pki import Leaf, ensure_authority, ensure_leaf
from component.x509 import CLIENT, SERVER, Request

_ADDRESSES = ("127.0.0.1", "::1")
LEAVES = (
    Leaf("server", "ca", Request("etcd-server", (), ("localhost",), _ADDRESSES, (SERVER, CLIENT))),
    Leaf("peer", "ca", Request("etcd-peer", (), ("localhost",), _ADDRESSES, (SERVER, CLIENT))),
    Leaf("apiserver-etcd-client", "ca", Request("kube-apiserver-etcd-client", usages=(CLIENT,))),
)


def ensure_etcd_pki(folder: Path, now: datetime | None = None) -> list[str]:
    """Make what is missing or stale in ``folder``; returns the names of what was made, in order."""
    moment = now or datetime.now(UTC)
    folder.mkdir(mode=0o700, exist_ok=True)
    authority, new = ensure_authority(folder, "ca", "etcd-ca", moment)
    return [*(["ca"] if new else []), *(leaf.name for leaf in LEAVES if ensure_leaf(folder, leaf, authority, moment))]
