"""From API objects to files: which keys become which paths, with which modes. Pure; used by four plugins."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from node.kubelet import downward
from node.kubelet.interface import Pod, VolumeError
from node.kubelet.volumes.atomic import File

DEFAULT_MODE = 0o644
_MISSING = {
    "configmap": "configmap references non-existent config key: ",
    "secret": "references non-existent secret key: ",
}


def config_map_data(config_map: Mapping[str, Any]) -> dict[str, bytes]:
    data = {key: value.encode() for key, value in (config_map.get("data") or {}).items()}
    data |= {key: base64.b64decode(value) for key, value in (config_map.get("binaryData") or {}).items()}
    return data


def secret_data(secret: Mapping[str, Any]) -> dict[str, bytes]:
    return {key: base64.b64decode(value) for key, value in (secret.get("data") or {}).items()}


def select(
    kind: str, data: Mapping[str, bytes], items: Sequence[Mapping[str, Any]] | None, mode: int, *, optional: bool
) -> dict[str, File]:
    """All keys, or those of ``items`` under their paths. A missing key is an error unless ``optional``."""
    if not items:
        return {key: File(content, mode) for key, content in data.items()}
    files = {}
    for item in items:
        key = item["key"]
        if key in data:
            files[item["path"]] = File(data[key], mode_of(item, mode))
        elif not optional:
            raise VolumeError(_MISSING[kind] + key)
    return files


def mode_of(item: Mapping[str, Any], default: int) -> int:
    given = item.get("mode")
    return default if given is None else int(given)


def default_mode(source: Mapping[str, Any]) -> int:
    given = source.get("defaultMode")
    return DEFAULT_MODE if given is None else int(given)


def downward_files(pod: Pod, items: Sequence[Mapping[str, Any]], mode: int, allocatable: Mapping[str, str]) -> dict[str, File]:
    files = {}
    for item in items:
        try:
            if field := item.get("fieldRef"):
                text = downward.field_value(pod, field["fieldPath"])
            else:
                text = downward.resource_value(pod, item["resourceFieldRef"], "", allocatable)
        except ValueError as error:
            raise VolumeError(str(error)) from error
        files[item["path"]] = File(text.encode(), mode_of(item, mode))
    return files
