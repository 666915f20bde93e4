"""Flags shared by daemons: upstream's spellings as click parameters, and the value types Go programs accept.

Each daemon's ``__main__`` lists its parameters from here and from click; ``component.daemon`` adds the logging flags.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from component.version import GIT_VERSION

if TYPE_CHECKING:
    from component.tls import Profile

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PIECE = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")


def parse_duration(text: str) -> float:
    """Seconds of a Go duration such as ``1h30m`` or ``250ms``. Raises ValueError."""
    body = text.removeprefix("-").removeprefix("+")
    if body == "0":
        return 0.0
    pieces = list(_PIECE.finditer(body))
    if not pieces or "".join(piece[0] for piece in pieces) != body:
        raise ValueError(f"{text!r} is not a duration; write one like 10s, 1m30s or 250ms")
    seconds = sum(float(piece[1]) * _UNITS[piece[2]] for piece in pieces)
    return -seconds if text.startswith("-") else seconds


class Duration(click.ParamType):  # type: ignore[type-arg]  # generic only in later clicks
    """A Go duration; the parsed value is seconds as a float."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            return float(value)
        try:
            return parse_duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class CommaList(click.ParamType):  # type: ignore[type-arg]  # generic only in later clicks
    """``a,b,c``; the parsed value is a tuple of strings."""

    name = "list"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple | list):
            return tuple(str(item) for item in value)
        return tuple(item.strip() for item in str(value).split(",") if item.strip())


class KeyValues(click.ParamType):  # type: ignore[type-arg]  # generic only in later clicks
    """``a=1,b=2``; the parsed value is a dict of strings."""

    name = "mapping"

    def __init__(self, separator: str = "=") -> None:
        self._separator = separator

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, str]:
        if isinstance(value, Mapping):
            return {str(key): str(item) for key, item in value.items()}
        pairs: dict[str, str] = {}
        for item in filter(None, (piece.strip() for piece in str(value).split(","))):
            key, separator, text = item.partition(self._separator)
            if not separator or not key:
                self.fail(f"{item!r} must have the form key{self._separator}value", param, ctx)
            pairs[key] = text
        return pairs


DURATION = Duration()
COMMA_LIST = CommaList()
KEY_VALUES = KeyValues()
LEAST_VALUES = KeyValues("<")
"""``memory.available<100Mi,nodefs.available<10%``"""
PORT = click.IntRange(0, 65535)
INPUT_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
"""A file that must be there when the daemon starts; the refusal names the flag."""


def option(name: str, **attributes: Any) -> click.Option:
    """One ``--name`` option; its default is shown in the help."""
    attributes.setdefault("show_default", True)
    return click.Option([name], **attributes)


def switch(name: str, default: bool, help: str) -> click.Option:  # noqa: A002 - click's own word
    """A boolean in Go's forms: ``--name``, ``--name=true``, ``--name=false``."""
    return click.Option([name], type=click.BOOL, default=default, is_flag=False, flag_value="true", show_default=True, help=help)


def accepted(name: str, **attributes: Any) -> click.Option:
    """A flag of upstream's that changes nothing here, taken so that existing manifests start. Not listed in the help."""
    return option(name, hidden=True, default=None, **attributes)


def tls_profile_flags() -> list[click.Parameter]:
    """``--tls-min-version`` and ``--tls-cipher-suites``; :func:`tls_profile` reads them."""
    return [
        option("--tls-min-version", default="", help="Lowest TLS version: VersionTLS12 (the default) or VersionTLS13."),
        option("--tls-cipher-suites", type=COMMA_LIST, default="", help="Cipher suites for TLS 1.2, by Go's names."),
    ]


def tls_profile(options: Mapping[str, Any]) -> "Profile":
    """Raises click.UsageError in upstream's words."""
    from component.tls import profile

    try:
        return profile(options.get("tls_min_version") or "", options.get("tls_cipher_suites") or ())
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def kubeconfig() -> click.Option:
    """``--kubeconfig``, as every client of the API server has it."""
    return option(
        "--kubeconfig", type=click.Path(dir_okay=False), help="Kubeconfig file with the address and credentials to use."
    )


def version() -> click.Option:
    """``--version``, in upstream's words."""

    def show(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        if value:
            click.echo(f"Kubernetes {GIT_VERSION}")
            ctx.exit()

    text = "Print the version and exit."
    return click.Option(["--version"], is_flag=True, is_eager=True, expose_value=False, callback=show, help=text)


def logging_flags() -> list[click.Parameter]:
    """``--v`` and ``--logging-format``; ``component.daemon`` adds them to every daemon and consumes them."""
    return [
        click.Option(["--v", "-v", "verbosity"], type=click.IntRange(0, 10), default=0, help="Number for the log verbosity."),
        click.Option(
            ["--logging-format", "logging_format"],
            type=click.Choice(["text", "json"]),
            default="text",
            help="The form of log lines on standard error.",
        ),
    ]
