"""The kubeconfig of the administrator and of each daemon, from the keys that ``pki`` made. Called by ``cli up`` and ansible."""

from pathlib import Path

from bootstrap.pki import Identity
from client.kubeconfig import build, save

# file below the kubeconfig folder: (certificate in the PKI folder, user name in the file)
USERS = {
    "controller-manager": ("controller-manager", "system:kube-controller-manager"),
    "scheduler": ("scheduler", "system:kube-scheduler"),
    "proxy": ("proxy", "system:kube-proxy"),
    "dns": ("dns", "system:cluster-dns"),
    "kubelet": ("kubelet-client", "system:node"),
}


def write_kubeconfigs(pki: Path, folder: Path, admin: Path, identity: Identity) -> None:
    """Write every kubeconfig (0600). Files are replaced atomically, so a daemon never reads half of one."""
    server = f"https://{identity.node_ip}:{identity.api_port}"
    targets = {admin: ("admin", "kubernetes-admin")}
    targets |= {folder / f"{name}.kubeconfig": user for name, user in USERS.items()}
    for target, (certificate, user) in targets.items():
        document = build(
            server,
            ca=(pki / "ca.crt").read_bytes(),
            certificate=(pki / f"{certificate}.crt").read_bytes(),
            key=(pki / f"{certificate}.key").read_bytes(),
            cluster="pybernetes",
            user=user,
        )
        save(document, target)
