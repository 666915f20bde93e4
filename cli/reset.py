"""``pybernetes reset``: takes what a node's kubelet and proxy left off the machine, once they are stopped. Called by ansible.

The part of ``kubeadm reset`` that knows the product: files, units and packages are whoever installed them's to remove. It may run
again, and on a machine where only half of it is there.
"""

import asyncio
from pathlib import Path

import click

from cli.cluster import preflight, teardown
from cli.up import tell
from component.errors import OperatorError
from node.network.cni_config import FILE_NAME as CNI_FILE


@click.command(epilog="Example: systemctl stop kubelet kube-proxy && pybernetes reset")
@click.option(
    "--container-runtime-endpoint",
    "endpoint",
    default="unix:///run/containerd/containerd.sock",
    show_default=True,
    help="Socket of the CRI runtime.",
)
@click.option("--root-dir", type=click.Path(path_type=Path), default="/var/lib/kubelet", show_default=True, help="The kubelet's.")
@click.option("--cni-conf-dir", type=click.Path(path_type=Path), default="/etc/cni/net.d", show_default=True)
@click.option("--cni-bridge", default="cni0", show_default=True, help="Bridge of the pod network.")
@click.option("--grace", default=5, show_default=True, help="Seconds that containers get between SIGTERM and SIGKILL.")
def reset(endpoint: str, root_dir: Path, cni_conf_dir: Path, cni_bridge: str, grace: int) -> None:
    """Remove the pods of this node's kubelet, its mounts, the pod network and all packet rules. Other pods of the same container
    runtime stay."""
    preflight.require_root()
    _remove_pods(endpoint, root_dir, grace)
    if left := teardown.unmount_below(root_dir):
        raise click.ClickException(f"still mounted: {', '.join(left)}; a process uses it (fuser -m {left[0]})")
    asyncio.run(_clean_network())
    teardown.delete_cni_chains()
    if teardown.delete_interface(cni_bridge):
        tell(f"removed the interface {cni_bridge}")
    (cni_conf_dir / CNI_FILE).unlink(missing_ok=True)


def _remove_pods(endpoint: str, root_dir: Path, grace: int) -> None:
    socket = Path(endpoint.removeprefix("unix://"))
    if not socket.exists():
        tell(f"the container runtime at {socket} is gone: its pods are not removed")
        return
    from cri.errors import RuntimeServiceError
    from node.kubelet.reset import remove_pods

    try:
        count = asyncio.run(remove_pods(endpoint, root_dir, grace))
    except* RuntimeServiceError as errors:
        raise click.ClickException(f"cannot remove the pods: {errors.exceptions[0]}") from errors
    tell(f"removed {count} pods")


async def _clean_network() -> None:
    from netproxy.cleanup import cleanup
    from node.network.routes import NetlinkRoutes

    try:
        await cleanup()
    except OperatorError as error:
        raise click.ClickException(str(error)) from None
    routes = NetlinkRoutes()
    for destination in await routes.list():
        await routes.delete(destination)
