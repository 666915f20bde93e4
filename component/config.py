"""Configuration files beside flags: YAML in upstream's camelCase becomes defaults for a daemon's options.

A daemon with ``--config`` calls ``read`` and then ``merged``; a flag given on the command line wins over the file, the file
wins over a flag's default. Unknown keys are refused by name, so that a misspelt one is not silently without effect.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import yaml
from click.core import ParameterSource

_HEADER = frozenset({"apiVersion", "kind"})


def read(path: str | Path, kind: str | None = None) -> dict[str, Any]:
    """The settings of a file. Raises click.UsageError, naming the file, when it is not such a mapping."""
    try:
        document = yaml.safe_load(Path(path).read_bytes()) or {}
    except OSError as error:
        raise click.UsageError(f"cannot read configuration file {path}: {error.strerror or error}") from None
    except yaml.YAMLError as error:
        raise click.UsageError(f"configuration file {path} is not YAML: {error}") from None
    if not isinstance(document, dict):
        raise click.UsageError(f"configuration file {path} must be a mapping")
    if kind is not None and document.get("kind", kind) != kind:
        raise click.UsageError(f"configuration file {path}: kind must be {kind}, not {document['kind']}")
    return {str(key): value for key, value in document.items() if key not in _HEADER}


def merged(
    options: Mapping[str, Any],
    settings: Mapping[str, Any],
    params: Sequence[click.Parameter],
    context: click.Context | None = None,
) -> dict[str, Any]:
    """``options`` with the file's ``settings`` in place of what the command line left at its default.

    A key is a parameter's name in camelCase (``clusterDomain`` for ``--cluster-domain``). Values pass through the
    parameter's own type. Without ``context`` every option counts as left at its default.
    """
    known = {_camel(param.name): param for param in params if param.name}
    result = dict(options)
    for key, value in settings.items():
        param = known.get(key)
        if param is None or param.name is None:
            raise click.UsageError(f"unknown key {key!r} in the configuration file; known are {', '.join(sorted(known))}")
        source = context.get_parameter_source(param.name) if context is not None else ParameterSource.DEFAULT
        if source in (None, ParameterSource.DEFAULT):
            result[param.name] = param.type.convert(value, param, context) if value is not None else None
    return result


def _camel(name: str | None) -> str:
    return re.sub(r"_(\w)", lambda match: match[1].upper(), name or "")
