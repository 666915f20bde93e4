"""EncryptionConfigurations for tests."""

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def key(name: str, size: int = 32) -> dict[str, str]:
    """A key of its own for each name, the same in every run."""
    return {"name": name, "secret": base64.b64encode((name.encode() * size)[:size]).decode()}


def cipher(kind: str, *names: str) -> dict[str, Any]:
    return {kind: {"keys": [key(name) for name in names]}}


def kms(socket: Path, name: str = "plugin") -> dict[str, Any]:
    return {"kms": {"apiVersion": "v2", "name": name, "endpoint": f"unix://{socket}", "timeout": "2s"}}


IDENTITY: Mapping[str, Any] = {"identity": {}}


def configuration(*providers: Mapping[str, Any], resources: Sequence[str] = ("secrets",)) -> dict[str, Any]:
    rule = {"resources": list(resources), "providers": list(providers)}
    return {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": [rule]}


def write(path: Path, *providers: Mapping[str, Any], resources: Sequence[str] = ("secrets",)) -> Path:
    path.write_text(json.dumps(configuration(*providers, resources=resources)))
    return path
