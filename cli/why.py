"""``pybernetes why``: why an object of any Kubernetes cluster is as it is, as a chain of causes. Only reads."""

import asyncio
import json
import os
import shutil
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click
from click.shell_completion import CompletionItem

from cli.cluster.layout import data_dir_option, layout_of

if TYPE_CHECKING:
    from client.rest import Client
    from why.cause import Explanation

Answers = tuple[list["Explanation"], Sequence[str]]
"""What is to be shown, and notes on what was not read."""
T = TypeVar("T")
EXAMPLES = """
Examples:

  pybernetes why pod/web-5d4f8-x7k2p -n shop

  pybernetes why deploy/web -n shop -o json

  pybernetes why --all -A

  pybernetes why pvc/data --kubeconfig ~/.kube/config

  pybernetes why --as jane can-not get pods --subresource log -n shop

Exit status: 0 when it is well, 1 when it is not, 2 for a wrong call, 3 when the cluster did not tell.
"""
WELL, UNWELL, UNTOLD = 0, 1, 3
CAN_NOT = "can-not"
_NARROW, _WIDE = 80, 140


class Untold(click.ClickException):
    """The question could not be asked, so nothing is known."""

    exit_code = UNTOLD


def complete_kind(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """``KIND/`` for every kind with an explainer; names are the cluster's."""
    from why.catalog import EXPLAINERS

    return [CompletionItem(f"{kind.lower()}/") for kind in EXPLAINERS if kind.lower().startswith(incomplete.lower())]


@click.command(epilog=EXAMPLES)
@click.argument("words", metavar="[KIND/NAME | can-not VERB RESOURCE[/NAME]]", nargs=-1, shell_complete=complete_kind)
@click.option("-n", "--namespace", default="", help="Namespace of the object; the kubeconfig's own by default.")
@click.option("--all", "everything", is_flag=True, help="Explain everything of the namespace that is unwell.")
@click.option("-A", "--all-namespaces", is_flag=True, help="With --all: of every namespace.")
@data_dir_option
@click.option("--kubeconfig", type=click.Path(dir_okay=False), help="Use this file in place of the data directory's.")
@click.option("--as", "user", help="With can-not: the user, or system:serviceaccount:NAMESPACE:NAME.")
@click.option("--as-group", "groups", multiple=True, help="With can-not: a group of the user; may be repeated.")
@click.option("--subresource", default="", help="With can-not: a subresource such as log or scale.")
@click.option("--context", help="The context of the kubeconfig to use.")
@click.option("-o", "--output", type=click.Choice(["tree", "json"]), default="tree", show_default=True)
@click.pass_context
def why(
    ctx: click.Context,
    words: tuple[str, ...],
    namespace: str,
    everything: bool,
    all_namespaces: bool,
    data_dir: str,
    kubeconfig: str | None,
    user: str | None,
    groups: tuple[str, ...],
    subresource: str,
    context: str | None,
    output: str,
) -> None:
    """Explain why KIND/NAME is in the state that it is in: causes, evidence and what to do next.

    Works with any Kubernetes cluster, and with the rights of a viewer; it says what it may not read. With can-not it
    explains why a user may not do something: the rule of RBAC that is missing, and what comes near.
    """
    question = Question(words, namespace, everything, all_namespaces, user, groups, subresource)
    question.check()
    config = Path(kubeconfig) if kubeconfig else layout_of(data_dir).admin_kubeconfig
    answers, notes = asyncio.run(_answers(question, config, context))
    _show(answers, notes, output)
    ctx.exit(_status(answers, not everything))


@dataclass(frozen=True, slots=True)
class Question:
    """What the user asked, as the command line has it."""

    words: tuple[str, ...]
    namespace: str
    everything: bool
    all_namespaces: bool
    user: str | None
    groups: tuple[str, ...]
    subresource: str

    @property
    def is_about_rights(self) -> bool:
        return self.words[:1] == (CAN_NOT,)

    def check(self) -> None:
        """Raises click.UsageError for words that do not go together."""
        if self.is_about_rights:
            if len(self.words) != 3 or not self.user or self.everything:
                raise click.UsageError(f"the form is: why --as USER {CAN_NOT} VERB RESOURCE[/NAME]")
            return
        if self.user or self.groups or self.subresource:
            raise click.UsageError(f"--as, --as-group and --subresource go with {CAN_NOT}")
        if self.everything == bool(self.words) or len(self.words) > 1 or (self.all_namespaces and not self.everything):
            raise click.UsageError("give either KIND/NAME, or --all (with -A for every namespace)")


async def _answers(question: Question, config: Path, context: str | None) -> Answers:
    from apimachinery.errors import StatusError
    from client.kubeconfig import KubeconfigError, load
    from client.rest import Client

    try:
        loaded = load(config, context)
        where = "" if question.all_namespaces else question.namespace or loaded.namespace or "default"
        async with Client(loaded, component="why") as client:
            if question.everything:
                return await _all(client, where)
            if question.is_about_rights:
                return await _rights(client, question, where)
            return await _one(client, question.words[0], where)
    except (KubeconfigError, StatusError, ConnectionError) as error:
        raise Untold(str(error)) from error


async def _one(client: "Client", what: str, namespace: str) -> Answers:
    from cli.targets import Target, resolve
    from why import catalog, reading
    from why.kinds import KINDS, known

    word, _, name = what.partition("/")
    kind = known(word) if name else None
    if kind is not None:  # no need to ask the server what it serves
        target = Target(KINDS[kind].resource, kind, KINDS[kind].namespaced, name)
    else:
        target = await _told(resolve(client, what))
    where = namespace if target.namespaced else ""
    snapshot, obj = await reading.around(client, target.resource, target.kind, target.name, where)
    return [catalog.explain(snapshot, obj)], reading.notes(snapshot)


async def _told(found: Awaitable[T]) -> T:
    """A kind that the server does not have leaves the question open, as an object does that is not there."""
    try:
        return await found
    except click.UsageError:
        raise
    except click.ClickException as error:
        raise Untold(error.message) from None


async def _all(client: "Client", namespace: str) -> Answers:
    from why import catalog, reading

    snapshot = await reading.everything(client, namespace)
    return catalog.unwell(snapshot, {namespace} if namespace else None), reading.notes(snapshot)


async def _rights(client: "Client", question: Question, namespace: str) -> Answers:
    from cli.targets import find
    from controlplane.apiserver.authorization.interface import Attributes
    from why import access, reading

    _, verb, what = question.words
    user = access.user_of(question.user or "", question.groups)
    if what.startswith("/"):
        asked = Attributes(user, verb, path=what, is_resource=False)
    else:
        word, _, name = what.partition("/")
        resource, entry = await _told(find(client, word))
        asked = Attributes(
            user,
            verb,
            api_group=resource.group,
            api_version=resource.version,
            resource=resource.resource,
            subresource=question.subresource,
            namespace=namespace if entry["namespaced"] else "",
            name=name,
        )
    snapshot = await reading.roles(client, asked.namespace)
    return [access.explain(snapshot, asked)], reading.notes(snapshot)


def _show(answers: Sequence["Explanation"], notes: Sequence[str], output: str) -> None:
    from why import rendering

    if output == "json":
        click.echo(json.dumps({"explanations": [rendering.as_json(each) for each in answers], "notes": list(notes)}, indent=2))
        return
    columns = int(os.environ.get("COLUMNS") or 0) or shutil.get_terminal_size((110, 24)).columns
    width = min(_WIDE, max(_NARROW, columns))
    click.echo(rendering.forest(answers, width) if answers else "nothing is unwell, as far as may be read")
    for note in notes:
        click.echo(rendering.harmless(f"note: {note}"), err=True)


def _status(answers: Sequence["Explanation"], asked: bool) -> int:
    from why.cause import State

    states = {each.state for each in answers}
    if State.UNWELL in states or State.WAITING in states:
        return UNWELL
    return UNTOLD if asked and State.UNKNOWN in states else WELL
