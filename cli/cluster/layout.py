"""Where everything of one cluster lies below its data directory. Used by every verb that takes ``--data-dir``."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import click

DEFAULT_DATA_DIR = "/var/lib/pybernetes"


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths below ``data_dir`` (absolute). Nothing here touches the disk."""

    data_dir: Path

    @property
    def pki(self) -> Path:
        return self.data_dir / "pki"

    @property
    def kubeconfigs(self) -> Path:
        return self.data_dir / "kubeconfigs"

    @property
    def admin_kubeconfig(self) -> Path:
        return self.data_dir / "admin.kubeconfig"

    @property
    def state_db(self) -> Path:
        return self.data_dir / "state.db"

    @property
    def etcd(self) -> Path:
        """What a private etcd keeps."""
        return self.data_dir / "etcd"

    @property
    def etcd_pki(self) -> Path:
        return self.pki / "etcd"

    @property
    def encryption_config(self) -> Path:
        return self.pki / "encryption-config.yaml"

    @property
    def audit_log(self) -> Path:
        return self.data_dir / "audit" / "audit.log"

    @property
    def logs(self) -> Path:
        return self.data_dir / "logs"

    @property
    def run(self) -> Path:
        """Records of the processes that run, and the lock of `up` and `down`."""
        return self.data_dir / "run"

    @property
    def settings(self) -> Path:
        """The flags of the last `up`, which a second `up` and `down` take as their defaults."""
        return self.data_dir / "cluster.json"

    @property
    def containerd(self) -> Path:
        return self.data_dir / "containerd"

    @property
    def cni_conf(self) -> Path:
        return self.data_dir / "cni"

    @property
    def kubelet(self) -> Path:
        return self.data_dir / "kubelet"

    @property
    def pod_logs(self) -> Path:
        return self.data_dir / "pods"

    @property
    def local_path(self) -> Path:
        """What pods keep in volumes of the class local-path. Outlives `down`, not `down --purge`."""
        return self.data_dir / "local-path"

    @property
    def cgroup_root(self) -> str:
        """One of its own: kubelets that share a cgroup root take each other's pods for leftovers."""
        return f"/pybernetes-{hashlib.sha256(os.fsencode(self.data_dir)).hexdigest()[:10]}"

    @property
    def images(self) -> Path:
        return self.data_dir / "images"


def layout_of(data_dir: str) -> Layout:
    """The layout of an absolute form of ``data_dir``."""
    return Layout(Path(data_dir).expanduser().absolute())


data_dir_option = click.option(
    "--data-dir",
    default=DEFAULT_DATA_DIR,
    show_default=True,
    type=click.Path(file_okay=False, readable=False),  # who may not read it hears why from the verb
    help="Folder that holds everything of the cluster.",
)
