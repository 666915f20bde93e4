"""The file of ``--admission-control-config-file``: an AdmissionConfiguration, with a configuration for each plugin it names."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from apimachinery.codecs import yaml
from apimachinery.errors import StatusError
from component.errors import OperatorError


def load(path: Path) -> Mapping[str, Mapping[str, Any]]:
    """Plugin configurations by plugin name. Raises OperatorError, naming the file."""
    config = read(path)
    if config.get("kind") != "AdmissionConfiguration" or not str(config.get("apiVersion")).startswith("apiserver.config.k8s.io/"):
        raise OperatorError(f"{path}: must be an AdmissionConfiguration of apiserver.config.k8s.io/v1")
    found: dict[str, Mapping[str, Any]] = {}
    for plugin in config.get("plugins") or ():
        name, file = str(plugin.get("name") or ""), plugin.get("path")
        if not name:
            raise OperatorError(f"{path}: every plugin needs a name")
        if plugin.get("configuration") is not None:
            found[name] = plugin["configuration"]
        elif file:
            found[name] = read(path.parent / file)
    return found


def read(path: Path) -> Mapping[str, Any]:
    """One object from a YAML or JSON file. Raises OperatorError, naming the file."""
    try:
        parsed = yaml.decode(path.read_bytes())
    except OSError as error:
        raise OperatorError(f"{path}: {error.strerror}") from None
    except StatusError as error:
        raise OperatorError(f"{path}: {error.message}") from None
    if not isinstance(parsed, dict):
        raise OperatorError(f"{path}: must hold one YAML or JSON object")
    return parsed
