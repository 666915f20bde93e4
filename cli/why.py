"""``pybernetes why``: why an object of any Kubernetes cluster is as it is, as a chain of causes. Only reads."""

import asyncio
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from cli.cluster.layout import data_dir_option, layout_of

if TYPE_CHECKING:
    from client.rest import Client
    from why.cause import Explanation

EXAMPLES = """
Examples:

  pybernetes why pod/web-5d4f8-x7k2p -n shop

  pybernetes why deploy/web -n shop -o json

  pybernetes why --all -A

  pybernetes why pvc/data --kubeconfig ~/.kube/config

Exit status: 0 when it is well, 1 when it is not, 2 for a wrong call, 3 when the cluster did not tell.
"""
WELL, UNWELL, UNTOLD = 0, 1, 3
_NARROW, _WIDE = 80, 140


class Untold(click.ClickException):
    """The question could not be asked, so nothing is known."""

    exit_code = UNTOLD


def complete_kind(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """``KIND/`` for every kind with an explainer; names are the cluster's."""
    from why.catalog import EXPLAINERS

    return [CompletionItem(f"{kind.lower()}/") for kind in EXPLAINERS if kind.lower().startswith(incomplete.lower())]


@click.command(epilog=EXAMPLES)
@click.argument("what", metavar="[KIND/NAME]", required=False, shell_complete=complete_kind)
@click.option("-n", "--namespace", default="", help="Namespace of the object; the kubeconfig's own by default.")
@click.option("--all", "everything", is_flag=True, help="Explain everything of the namespace that is unwell.")
@click.option("-A", "--all-namespaces", is_flag=True, help="With --all: of every namespace.")
@data_dir_option
@click.option("--kubeconfig", type=click.Path(dir_okay=False), help="Use this file in place of the data directory's.")
@click.option("--context", help="The context of the kubeconfig to use.")
@click.option("-o", "--output", type=click.Choice(["tree", "json"]), default="tree", show_default=True)
@click.pass_context
def why(
    ctx: click.Context,
    what: str | None,
    namespace: str,
    everything: bool,
    all_namespaces: bool,
    data_dir: str,
    kubeconfig: str | None,
    context: str | None,
    output: str,
) -> None:
    """Explain why KIND/NAME is in the state that it is in: causes, evidence and what to do next.

    Works with any Kubernetes cluster, and with the rights of a viewer; it says what it may not read.
    """
    if everything == bool(what) or (all_namespaces and not everything):
        raise click.UsageError("give either KIND/NAME, or --all (with -A for every namespace)")
    config = Path(kubeconfig) if kubeconfig else layout_of(data_dir).admin_kubeconfig
    answers, notes = asyncio.run(_answers(what, namespace, all_namespaces, config, context))
    _show(answers, notes, output)
    ctx.exit(_status(answers, bool(what)))


async def _answers(
    what: str | None, namespace: str, all_namespaces: bool, config: Path, context: str | None
) -> tuple[list["Explanation"], Sequence[str]]:
    from apimachinery.errors import StatusError
    from client.kubeconfig import KubeconfigError, load
    from client.rest import Client

    try:
        loaded = load(config, context)
        where = namespace or loaded.namespace or "default"
        async with Client(loaded, component="why") as client:
            if what is None:
                return await _all(client, "" if all_namespaces else where)
            return await _one(client, what, where)
    except (KubeconfigError, StatusError, ConnectionError) as error:
        raise Untold(str(error)) from error


async def _one(client: "Client", what: str, namespace: str) -> tuple[list["Explanation"], Sequence[str]]:
    from cli.targets import Target, resolve
    from why import catalog, reading
    from why.kinds import KINDS, known

    word, _, name = what.partition("/")
    kind = known(word) if name else None
    if kind is not None:  # no need to ask the server what it serves
        target = Target(KINDS[kind].resource, kind, KINDS[kind].namespaced, name)
    else:
        try:
            target = await resolve(client, what)
        except click.ClickException as error:
            raise error if isinstance(error, click.UsageError) else Untold(error.message) from None
    where = namespace if target.namespaced else ""
    snapshot, obj = await reading.around(client, target.resource, target.kind, target.name, where)
    return [catalog.explain(snapshot, obj)], reading.notes(snapshot)


async def _all(client: "Client", namespace: str) -> tuple[list["Explanation"], Sequence[str]]:
    from why import catalog, reading

    snapshot = await reading.everything(client, namespace)
    return catalog.unwell(snapshot, {namespace} if namespace else None), reading.notes(snapshot)


def _show(answers: Sequence["Explanation"], notes: Sequence[str], output: str) -> None:
    from why import rendering

    if output == "json":
        click.echo(json.dumps({"explanations": [rendering.as_json(each) for each in answers], "notes": list(notes)}, indent=2))
        return
    columns = int(os.environ.get("COLUMNS") or 0) or shutil.get_terminal_size((110, 24)).columns
    width = min(_WIDE, max(_NARROW, columns))
    click.echo(rendering.forest(answers, width) if answers else "nothing is unwell, as far as may be read")
    for note in notes:
        click.echo(f"note: {note}", err=True)


def _status(answers: Sequence["Explanation"], asked: bool) -> int:
    from why.cause import State

    states = {each.state for each in answers}
    if State.UNWELL in states or State.WAITING in states:
        return UNWELL
    return UNTOLD if asked and State.UNKNOWN in states else WELL
