"""``pybernetes together``: several daemons in one process, as `up` runs them to share one interpreter's memory."""

from collections.abc import Sequence

import click


def split(arguments: Sequence[str]) -> list[list[str]]:
    """Cut ``scheduler --v 2 + proxy`` at the plus signs. Raises click.UsageError for an empty part."""
    parts: list[list[str]] = [[]]
    for argument in arguments:
        if argument == "+":
            parts.append([])
        else:
            parts[-1].append(argument)
    if not all(parts):
        raise click.UsageError("each side of a + must name a daemon, as in: together scheduler --v 2 + controller-manager")
    return parts


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, required=True)
@click.pass_context
def together(ctx: click.Context, arguments: Sequence[str]) -> None:
    """Run daemons side by side in one process: DAEMON [FLAGS] + DAEMON [FLAGS] ..."""
    import importlib

    from cli.__main__ import VERBS
    from component.daemon import run_all

    daemons = []
    for verb, *flags in split(arguments):
        module, attribute, _ = VERBS.get(verb, ("", "", ""))
        if attribute != "DAEMON":
            raise click.UsageError(f"{verb!r} is not a daemon")
        daemons.append((importlib.import_module(module).DAEMON, flags))
    ctx.exit(run_all(daemons))
