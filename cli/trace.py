"""``pybernetes trace``: the timeline of an object and of those it owns, from what the system records anyway."""

import asyncio
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.cluster.layout import data_dir_option, layout_of
from cli.cluster.settings import load

if TYPE_CHECKING:
    from cli.tracing.timeline import Records

EXAMPLES = """
Examples:

  pybernetes trace deployment/web -n shop

  pybernetes trace pod/web-5d4f8-x7k2p --kubeconfig ~/.kube/config --audit-log /var/log/kubernetes/audit.log
"""


@click.command(epilog=EXAMPLES)
@click.argument("what", metavar="KIND/NAME")
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of the object.")
@data_dir_option
@click.option("--kubeconfig", type=click.Path(dir_okay=False), help="Use this file in place of the data directory's.")
@click.option("--audit-log", type=click.Path(dir_okay=False), help="The API server's audit log, if not the data directory's.")
@click.option("-a", "--all", "everything", is_flag=True, help="Show status writes and lost races as well.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def trace(
    what: str, namespace: str, data_dir: str, kubeconfig: str | None, audit_log: str | None, everything: bool, output: str
) -> None:
    """Show what happened to KIND/NAME and the objects it owns, hop by hop.

    Times marked (s) are known to the second only; the others to the microsecond.
    """
    layout = layout_of(data_dir)
    settings = load(layout.settings)
    config = Path(kubeconfig) if kubeconfig else layout.admin_kubeconfig
    log = Path(audit_log) if audit_log else layout.audit_log
    journal = "" if kubeconfig else f"http://127.0.0.1:{settings.proxy_metrics_port}/debug/programmed"
    records = asyncio.run(_gather(what, namespace, config, log, journal))
    _show(records, everything, output)


async def _gather(what: str, namespace: str, config: Path, log: Path, journal: str) -> "Records":
    from apimachinery.errors import StatusError
    from cli.targets import resolve
    from cli.tracing.sources import gather
    from client.kubeconfig import KubeconfigError, load
    from client.rest import Client

    try:
        async with Client(load(config), component="trace") as client:
            target = await resolve(client, what)
            return await gather(client, target, namespace, log, journal)
    except (KubeconfigError, StatusError, ConnectionError) as error:
        raise click.ClickException(str(error)) from error


def _show(records: "Records", everything: bool, output: str) -> None:
    from cli.tracing.timeline import render, timeline

    hops = timeline(records)
    if output == "json":
        click.echo(json.dumps([{**asdict(hop), "when": hop.when.isoformat()} for hop in hops], indent=1))
        return
    shown = [hop for hop in hops if everything or not hop.routine]
    click.echo(render(shown))
    if hidden := len(hops) - len(shown):
        click.echo(f"({hidden} status writes and lost races are not shown; --all shows them)")
    for note in records.notes:
        click.echo(f"note: {note}", err=True)
