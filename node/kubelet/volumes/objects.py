"""Read the configMap or secret that a volume names, with ``optional`` and the kubelet's words for a missing one."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from apimachinery.errors import StatusError
from node.kubelet.interface import ObjectSource, VolumeError
from node.kubelet.volumes import projection
from node.kubelet.volumes.atomic import File


async def config_map_files(objects: ObjectSource, namespace: str, source: Mapping[str, Any], mode: int) -> dict[str, File]:
    """``source`` is a configMap volume or a configMap part of a projected one: ``name``, ``items``, ``optional``."""
    found = await _read("configmap", objects.config_map, namespace, source["name"], source)
    data = projection.config_map_data(found) if found else {}
    return projection.select("configmap", data, source.get("items"), mode, optional=bool(source.get("optional")))


async def secret_files(objects: ObjectSource, namespace: str, name: str, source: Mapping[str, Any], mode: int) -> dict[str, File]:
    """A secret volume says ``secretName``, a projected one ``name``: the caller knows which."""
    found = await _read("secret", objects.secret, namespace, name, source)
    data = projection.secret_data(found) if found else {}
    return projection.select("secret", data, source.get("items"), mode, optional=bool(source.get("optional")))


async def _read(
    kind: str,
    read: Callable[[str, str], Awaitable[Mapping[str, Any]]],
    namespace: str,
    name: str,
    source: Mapping[str, Any],
) -> Mapping[str, Any] | None:
    try:
        return await read(namespace, name)
    except StatusError as error:
        if error.code != 404:
            raise
        if source.get("optional"):
            return None
        raise VolumeError(f'{kind} "{name}" not found') from error
