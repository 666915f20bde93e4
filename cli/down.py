"""``pybernetes down``: stops what `up` started and takes its traces off the machine. State stays, unless --purge."""

import asyncio
import contextlib
import os
import signal
from pathlib import Path

import click

from cli.cluster import containerd, lost_networks, plan, preflight, processes, teardown, unfinished
from cli.cluster.layout import Layout, data_dir_option, layout_of
from cli.cluster.settings import Settings, load
from cli.up import STOP_SECONDS, adopt_or_start, exclusive, tell, wait_for_runtime
from component.errors import OperatorError
from node.network.cni_config import FILE_NAME as CNI_FILE


@click.command(epilog="Example: pybernetes down --data-dir /tmp/k --purge")
@data_dir_option
@click.option("--purge", is_flag=True, help="Remove the data directory as well.")
@click.option("--grace", default=5, show_default=True, help="Seconds that containers get between SIGTERM and SIGKILL.")
def down(data_dir: str, purge: bool, grace: int) -> None:
    """Stop a cluster: daemons, pods, container runtime; packet rules, interfaces and mounts go too."""
    preflight.require_root()
    layout = layout_of(data_dir)
    if not layout.run.exists():
        raise click.ClickException(f"there is no cluster in {layout.data_dir}; name its folder with --data-dir")
    with exclusive(layout):
        settings = load(layout.settings)
        stop_daemons(layout)
        remove_pods(layout, settings, grace)
        stop_containerd(layout, settings)
        clean_network(settings)
        if settings.cni_conf_dir:
            Path(settings.cni_conf_dir, CNI_FILE).unlink(missing_ok=True)
        if teardown.kill_cgroup(layout.cgroup_root):
            tell("killed processes of pods that the container runtime had lost")
        teardown.remove_cgroups(layout.cgroup_root)
        if left := teardown.unmount_below(layout.data_dir):
            raise click.ClickException(f"still mounted: {', '.join(left)}; a process uses it (fuser -m {left[0]})")
        for file in layout.run.glob("*.json"):
            file.unlink()
    if purge:
        try:
            teardown.remove_tree(layout.data_dir)
        except (RuntimeError, OSError) as error:
            raise click.ClickException(f"cannot remove {layout.data_dir}: {error}") from error
        tell(f"removed {layout.data_dir}")


def stop_daemons(layout: Layout) -> None:
    """The node first, so that nothing is started again while pods are taken down; then what is left of ours."""
    for name in (*reversed(plan.DAEMONS), plan.ETCD):
        found = processes.find(name, layout.data_dir, layout.run)
        if found is not None:
            gently = processes.stop(found, STOP_SECONDS)
            tell(f"stopped {name} (pid {found.pid})" + ("" if gently else " with SIGKILL"))
    for stray in processes.marked(layout.data_dir):
        if stray.name != plan.CONTAINERD:
            processes.stop(stray, STOP_SECONDS)
            tell(f"stopped {stray.name} (pid {stray.pid})")


def remove_pods(layout: Layout, settings: Settings, grace: int) -> None:
    """Ask the runtime to remove every pod of ours; a private containerd that has died is started once more for that."""
    socket = containerd.socket_of(layout, settings)
    ours = None
    if settings.containerd:
        if not Path(socket).exists():
            tell(f"the container runtime at {socket} is gone: its pods are not removed")
            return
    elif not (layout.containerd / "config.toml").exists() and not (layout.containerd / "root").exists():
        return
    else:
        spec = containerd.specification(layout, settings)
        ours = processes.find(plan.CONTAINERD, layout.data_dir, layout.run)
        if ours is None:
            unfinished.clear(containerd.private(layout, settings))
            lost_networks.clear(containerd.private(layout, settings))
            ours = adopt_or_start(layout, spec, None)
    wait_for_runtime(layout, socket, ours)
    from cri.errors import RuntimeServiceError
    from node.kubelet.reset import remove_pods as remove

    try:
        count = asyncio.run(remove(f"unix://{socket}", layout.kubelet if settings.containerd else None, grace))
    except* RuntimeServiceError as errors:
        raise click.ClickException(f"cannot remove the pods: {errors.exceptions[0]}") from errors
    tell(f"removed {count} pods")


def stop_containerd(layout: Layout, settings: Settings) -> None:
    if settings.containerd:
        return
    found = processes.find(plan.CONTAINERD, layout.data_dir, layout.run)
    if found is not None:
        processes.stop(found, STOP_SECONDS)
        tell(f"stopped containerd (pid {found.pid})")
    for pid in teardown.runtime_leftovers(containerd.socket_of(layout, settings)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def clean_network(settings: Settings) -> None:
    """Take away the proxy's rules, CNI's chains and the pod bridge."""
    from netproxy.cleanup import cleanup

    try:
        asyncio.run(cleanup())
    except OperatorError as error:
        raise click.ClickException(str(error)) from None
    teardown.delete_cni_chains()
    if teardown.delete_interface(settings.bridge):
        tell(f"removed packet rules and interface {settings.bridge}")
