"""The container runtime of one cluster as ``up``, ``down`` and ``image`` see it: ours to start, or someone else's."""

import re
import shutil
import subprocess
from pathlib import Path

import click

from bootstrap.containerd import Layout as RuntimeLayout
from bootstrap.containerd import command, minor_version, write_config
from bootstrap.containerd import layout as runtime_layout
from cli.cluster.layout import Layout
from cli.cluster.plan import CONTAINERD
from cli.cluster.processes import ProcessSpec
from cli.cluster.settings import Settings


def private(layout: Layout, settings: Settings) -> RuntimeLayout:
    """Where the private containerd keeps its things."""
    return runtime_layout(layout.containerd, cni_conf_dir=layout.cni_conf, cni_bin_dir=Path(settings.cni_bin_dir))


def endpoint(layout: Layout, settings: Settings) -> str:
    return settings.containerd or private(layout, settings).endpoint


def socket_of(layout: Layout, settings: Settings) -> str:
    """The plain path of the socket, as ``ctr --address`` wants it."""
    return endpoint(layout, settings).removeprefix("unix://")


def specification(layout: Layout, settings: Settings) -> ProcessSpec:
    """Write the private containerd's configuration and say how it is started."""
    program = shutil.which(settings.containerd_program)
    if program is None:
        raise click.ClickException(f"{settings.containerd_program} is not installed: apt-get install containerd")
    asked = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    if asked.returncode != 0:
        raise click.ClickException(f"{program} cannot be run: {asked.stderr.strip() or f'exit status {asked.returncode}'}")
    where = private(layout, settings)
    try:
        write_config(where, minor_version(asked.stdout))
    except (ValueError, OSError) as error:
        raise click.ClickException(f"cannot prepare containerd: {error}") from error
    return ProcessSpec(CONTAINERD, command(where, program), layout.logs / "containerd.log")


def answers(socket: str) -> bool:
    """Whether the runtime answers now."""
    if not Path(socket).exists():
        return False
    asked = subprocess.run(["ctr", "--address", socket, "--timeout", "2s", "version"], capture_output=True, check=False)
    return asked.returncode == 0


def image_references(socket: str) -> set[str]:
    """References of the images that the runtime has for Kubernetes."""
    listed = subprocess.run(
        ["ctr", "--address", socket, "--namespace", "k8s.io", "images", "list", "--quiet"],
        capture_output=True,
        text=True,
        check=False,
    )
    return set(listed.stdout.split())


def import_archive(socket: str, archive: Path) -> list[str]:
    """Load an OCI or docker archive; returns the references it brought. Raises click.ClickException with ctr's reason."""
    done = _images(socket, "import", str(archive))
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines()
        raise click.ClickException(f"cannot import {archive}: {reason[-1] if reason else 'ctr failed'}")
    return re.findall(r"unpacking (\S+)", done.stdout)


def _images(socket: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = ["ctr", "--address", socket, "--namespace", "k8s.io", "images", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=False)
