"""``pybernetes completion``: prints the script that makes a shell complete verbs and flags."""

import click
from click.shell_completion import get_completion_class


@click.command(epilog="Example: source <(pybernetes completion bash)")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of SHELL."""
    from cli.__main__ import cli

    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(cli, {}, "pybernetes", "_PYBERNETES_COMPLETE").source())
