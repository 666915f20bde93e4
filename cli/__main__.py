"""Entry point of ``pybernetes``. Verbs are listed here and imported lazily, so that ``--help`` is quick and a daemon
never pays for the memory of another one."""

import errno
import importlib
import sys
from collections.abc import Sequence

import click

from component import allocator

# verb: (module, attribute, one line of help). An attribute named DAEMON is a component.daemon.Daemon.
VERBS: dict[str, tuple[str, str, str]] = {
    "up": ("cli.up", "up", "Start a whole single-node cluster."),
    "down": ("cli.down", "down", "Stop a cluster that `up` started; its state stays unless --purge is given."),
    "reset": ("cli.reset", "reset", "Take pods, mounts, interfaces and packet rules of a stopped node off this machine."),
    "status": ("cli.status", "status", "Show which parts of a cluster run."),
    "demo": ("cli.demo", "demo", "Deploy a small web application and reach it through its Service."),
    "image": ("cli.image", "image", "Import container images from archives, and make the product's own."),
    "certs": ("cli.certs", "certs", "Check, renew and issue the certificates of a cluster."),
    "token": ("cli.token", "token", "Manage the tokens with which new nodes join."),
    "addon": ("cli.addon", "addon", "Print the objects that a cluster needs beside its daemons."),
    "secrets": ("cli.secrets", "secrets", "Look after what is encrypted in storage."),
    "snapshot": ("cli.snapshot", "snapshot", "Save, inspect and restore the objects of a cluster."),
    "migrate": ("cli.snapshot", "migrate", "Move a cluster from SQLite to etcd, or back."),
    "trace": ("cli.trace", "trace", "Show what happened to an object, hop by hop."),
    "why": ("cli.why", "why", "Explain why an object is in the state that it is in."),
    "apiserver": ("controlplane.apiserver.__main__", "DAEMON", "The API server, the only door to the store."),
    "controller-manager": ("controlplane.controllers.__main__", "DAEMON", "The controllers: observe, compare, correct."),
    "scheduler": ("controlplane.scheduler.__main__", "DAEMON", "The scheduler: filter, score, bind."),
    "kubelet": ("node.kubelet.__main__", "DAEMON", "The node agent on CRI."),
    "proxy": ("netproxy.__main__", "DAEMON", "The service proxy."),
    "dns": ("netproxy.dns.__main__", "DAEMON", "The DNS server of the cluster."),
    "balancer": ("node.balancer.__main__", "DAEMON", "A local TCP balancer in front of several API servers."),
    "together": ("cli.together", "together", "Run several daemons in one process."),
    "completion": ("cli.completion", "completion", "Print the shell completion script."),
}
# What the machine refuses, whichever verb meets it, and what its owner can do about it.
MENDS = {
    errno.ENOSPC: "free some space on that disk (df -h), or choose another --data-dir",
    errno.EDQUOT: "free some of your quota on that disk, or choose another --data-dir",
    errno.EROFS: "choose another --data-dir, or mount that disk for writing",
    errno.EACCES: "run this as root",
    errno.EPERM: "run this as root, on a machine that lets root do it",
}
HIDDEN = frozenset({"together"})
CROWDED = "apiserver"  # the daemon that many clients come to, and leave


class LazyGroup(click.Group):
    """A group whose members are imported when called by name, not when listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [verb for verb in VERBS if verb not in HIDDEN]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module, attribute, _ = VERBS[cmd_name]
        found = getattr(importlib.import_module(module), attribute)
        if attribute != "DAEMON":
            assert isinstance(found, click.Command)
            return found
        from component.daemon import command

        return command(found)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(verb, text) for verb, (_, _, text) in VERBS.items() if verb not in HIDDEN])


@click.command(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Example: pybernetes up --detach && kubectl --kubeconfig /var/lib/pybernetes/admin.kubeconfig get nodes",
)
@click.version_option(package_name="pybernetes", message="Pybernetes %(version)s (Kubernetes v1.36)")
def cli() -> None:
    """Kubernetes, implemented from scratch in Python."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line; exits the process."""
    if argv is None and sys.argv[1:2] == [CROWDED]:
        allocator.prefer_returnable()
    try:
        cli.main(args=list(sys.argv[1:] if argv is None else argv), prog_name="pybernetes")
    except OSError as error:
        if error.errno not in MENDS:
            raise
        where = f"{error.filename}: " if error.filename else ""
        click.echo(f"Error: {where}{error.strerror}; {MENDS[error.errno]}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
