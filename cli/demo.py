"""``pybernetes demo``: deploys ``bootstrap/addons/web.yaml`` with stock kubectl and reaches it as a client would."""

import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import click

from cli.cluster import containerd
from cli.cluster.layout import Layout, data_dir_option, layout_of
from cli.cluster.settings import Settings, load

ROLLOUT_SECONDS = 120
ANSWER_SECONDS = 20.0


@click.command()
@data_dir_option
def demo(data_dir: str) -> None:
    """Deploy a small web application with kubectl, wait for it, and print the curl that reached it."""
    layout = layout_of(data_dir)
    settings = load(layout.settings)
    program = shutil.which("kubectl")
    if program is None:
        raise click.ClickException("kubectl is not installed: apt-get install kubernetes-client")
    if not layout.admin_kubeconfig.exists():
        raise click.ClickException(f"no cluster in {layout.data_dir}; first: pybernetes up --detach --data-dir {data_dir}")
    import_image(layout, settings)
    kubectl = Kubectl(program, layout.admin_kubeconfig)
    with resources.as_file(resources.files("bootstrap") / "addons" / "web.yaml") as manifest:
        kubectl.show("apply", "-f", str(manifest))
    kubectl.show("rollout", "status", "deployment/web", f"--timeout={ROLLOUT_SECONDS}s")
    kubectl.show("get", "deployments,pods,services", "-l", "app=web", "-o", "wide")
    cluster_ip = kubectl.ask("get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
    node_port = kubectl.ask("get", "service", "web", "-o", "jsonpath={.spec.ports[0].nodePort}")
    for url in (f"http://{cluster_ip}/", f"http://{settings.node_ip}:{node_port}/"):
        reach(f"curl {url}", ["curl", "--silent", "--show-error", "--fail", "--max-time", "3", url])
    # from a pod, by the Service's name
    words = ("exec", "deployment/web", "--", "busybox", "timeout", "3", "wget", "-q", "-O", "-", "http://web/")
    reach(f"kubectl {' '.join(words)}", kubectl.argv(*words))


def import_image(layout: Layout, settings: Settings) -> None:
    """Make the demo's image here (no registry is needed) and load it, unless the runtime has it."""
    from bootstrap.demo import REFERENCE, demo_image
    from bootstrap.images import write_archive

    socket = containerd.socket_of(layout, settings)
    if REFERENCE not in containerd.image_references(socket):
        archive = layout.images / "demo.tar"
        write_archive([demo_image()], archive)
        containerd.import_archive(socket, archive)


def reach(shown: str, argv: Sequence[str]) -> None:
    """Run a command until it succeeds, then show it and its answer. Raises click.ClickException when it never does."""
    deadline = time.monotonic() + ANSWER_SECONDS
    while True:
        done = subprocess.run(argv, env=_clean_environment(), capture_output=True, text=True)
        if done.returncode == 0:
            click.secho(f"$ {shown}", bold=True)
            click.echo(done.stdout.rstrip())
            return
        if time.monotonic() > deadline:
            raise click.ClickException(
                f"no answer to {shown}: {done.stderr.strip()}; see `pybernetes status` and the pods' events"
            )
        time.sleep(0.2)


class Kubectl:
    """Stock kubectl with the administrator's kubeconfig; nothing of the caller's own configuration is used."""

    def __init__(self, program: str, kubeconfig: Path) -> None:
        self._argv = [program, f"--kubeconfig={kubeconfig}"]

    def argv(self, *arguments: str) -> list[str]:
        return [*self._argv, *arguments]

    def show(self, *arguments: str) -> None:
        """Run it and let its output through. Raises click.ClickException when it fails."""
        click.secho(f"$ kubectl {' '.join(arguments)}", bold=True)
        if subprocess.run([*self._argv, *arguments], env=_clean_environment(), check=False).returncode != 0:
            raise click.ClickException(f"kubectl {arguments[0]} failed; see its message above and `pybernetes status`")

    def ask(self, *arguments: str) -> str:
        """Its standard output. Raises click.ClickException with its standard error when it fails."""
        done = subprocess.run([*self._argv, *arguments], env=_clean_environment(), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise click.ClickException(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout


def _clean_environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
