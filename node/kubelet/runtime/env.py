"""The environment of a container: services, ``envFrom``, ``env``, and the ``$(NAME)`` references between them.

``containers`` calls :func:`environment`; the objects it names come from the kubelet's ``ObjectSource``.
"""

import base64
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.meta import namespace_of
from apimachinery.objects import services as service_objects
from node.kubelet import downward
from node.kubelet.interface import ObjectSource, VolumeError
from node.kubelet.runtime import env_file

_REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")
_UNSAFE = re.compile(r"[-.]")

Pod = Mapping[str, Any]
Container = Mapping[str, Any]
ReadFile = Callable[[str, str], Awaitable[bytes | None]]
"""Of a volume, by name, the file at a path; None when there is no such file. Raises VolumeError."""


class EnvError(Exception):
    """A value cannot be had; the text is the message of ``CreateContainerConfigError``."""


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replace ``$(NAME)`` by its value; unknown names stay as they are, ``$$`` is a dollar sign."""

    def replace(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return "$"
        return values.get(name, match[0])

    return _REFERENCE.sub(replace, text)


def service_variables(services: Iterable[Mapping[str, Any]], namespace: str, *, links: bool) -> dict[str, str]:
    """Docker-link style variables of the services a pod may see; the ``kubernetes`` service always."""
    found: dict[str, str] = {}
    for service in sorted(services, key=lambda each: (namespace_of(each), str(each["metadata"]["name"]))):
        name, home = str(service["metadata"]["name"]), namespace_of(service)
        master = name == "kubernetes" and home == "default"
        if (home == namespace and links) or master:
            found.update(_variables_of(service, name))
    return found


def _variables_of(service: Mapping[str, Any], name: str) -> dict[str, str]:
    ip, ports = str((service.get("spec") or {}).get("clusterIP") or ""), service_objects.ports(service)
    if ip in ("", "None") or not ports:
        return {}
    prefix = _shell_name(name)
    found = {f"{prefix}_SERVICE_HOST": ip, f"{prefix}_SERVICE_PORT": str(ports[0]["port"])}
    for port in ports:
        if port.get("name"):
            found[f"{prefix}_SERVICE_PORT_{_shell_name(port['name'])}"] = str(port["port"])
    shown = f"[{ip}]" if ":" in ip else ip
    for index, port in enumerate(ports):
        protocol, number = str(port.get("protocol") or "TCP"), str(port["port"])
        url = f"{protocol.lower()}://{shown}:{number}"
        if index == 0:
            found[f"{prefix}_PORT"] = url
        one = f"{prefix}_PORT_{number}_{protocol.upper()}"
        found |= {one: url, f"{one}_PROTO": protocol.lower(), f"{one}_PORT": number, f"{one}_ADDR": ip}
    return found


def _shell_name(name: str) -> str:
    return _UNSAFE.sub("_", name).upper()


async def environment(
    pod: Pod,
    container: Container,
    objects: ObjectSource,
    services: Iterable[Mapping[str, Any]],
    allocatable: Mapping[str, str],
    read_file: ReadFile | None = None,
) -> dict[str, str]:
    """The final variables, in order. ``read_file`` is for ``fileKeyRef``. Raises EnvError."""
    links = (pod.get("spec") or {}).get("enableServiceLinks") is not False
    from_services = service_variables(services, namespace_of(pod), links=links)
    made: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        made.update(await _from_source(pod, source, objects))
    for variable in container.get("env") or ():
        if (reference := (variable.get("valueFrom") or {}).get("fileKeyRef")) is not None:
            value = await _from_file(reference, read_file)
        else:
            value = await _value(pod, container, variable, objects, allocatable, {**from_services, **made})
        if value is not None:
            made[variable["name"]] = value
    return {**{name: value for name, value in from_services.items() if name not in made}, **made}


def expand_all(words: Sequence[str] | None, values: Mapping[str, str]) -> list[str]:
    """``command`` and ``args`` with their references replaced."""
    return [expand(word, values) for word in words or ()]


async def _from_source(pod: Pod, source: Mapping[str, Any], objects: ObjectSource) -> dict[str, str]:
    prefix = str(source.get("prefix") or "")
    for field, kind in (("configMapRef", "configmap"), ("secretRef", "secret")):
        if reference := source.get(field):
            data = await _data(pod, kind, reference, objects)
            return {f"{prefix}{key}": value for key, value in sorted((data or {}).items())}
    return {}


async def _from_file(reference: Mapping[str, Any], read_file: ReadFile | None) -> str | None:
    """A variable out of a file in one of the pod's volumes, which another container has written."""
    volume, path, key = str(reference["volumeName"]), str(reference["path"]), str(reference["key"])
    optional = bool(reference.get("optional"))
    try:
        content = await read_file(volume, path) if read_file is not None else None
        if content is None and not optional:
            raise EnvError(f'file "{path}" not found in volume "{volume}"')
        value = env_file.value_of((content or b"").decode(errors="surrogateescape"), key)
    except (VolumeError, env_file.FormatError) as error:
        raise EnvError(f"couldn't parse env file: {error}") from None
    if not value and not optional:
        raise EnvError(f'environment variable key "{key}" not found in file "{path}"')
    return value or None


async def _value(
    pod: Pod,
    container: Container,
    variable: Mapping[str, Any],
    objects: ObjectSource,
    allocatable: Mapping[str, str],
    known: Mapping[str, str],
) -> str | None:
    source = variable.get("valueFrom")
    if not source:
        return expand(str(variable.get("value") or ""), known)
    try:
        if reference := source.get("fieldRef"):
            return downward.field_value(pod, str(reference["fieldPath"]))
        if reference := source.get("resourceFieldRef"):
            return downward.resource_value(pod, reference, str(container["name"]), allocatable)
    except ValueError as error:
        raise EnvError(str(error)) from None
    for field, kind, shown in (("configMapKeyRef", "configmap", "ConfigMap"), ("secretKeyRef", "secret", "Secret")):
        if reference := source.get(field):
            data = await _data(pod, kind, reference, objects)
            if data is not None and reference["key"] in data:
                return data[reference["key"]]
            if reference.get("optional"):
                return None
            raise EnvError(f"couldn't find key {reference['key']} in {shown} {namespace_of(pod)}/{reference['name']}")
    raise EnvError(f"environment variable {variable['name']} has a source this kubelet does not know: {', '.join(source)}")


async def _data(pod: Pod, kind: str, reference: Mapping[str, Any], objects: ObjectSource) -> dict[str, str] | None:
    """The object's entries as text; None when it is optional and absent."""
    fetch = objects.config_map if kind == "configmap" else objects.secret
    try:
        found = await fetch(namespace_of(pod), str(reference["name"]))
    except StatusError as error:
        if error.code == 404 and reference.get("optional"):
            return None
        if error.code == 404:
            raise EnvError(f'{kind} "{reference["name"]}" not found') from None
        raise EnvError(error.message) from None
    if kind == "configmap":
        return {key: str(value) for key, value in (found.get("data") or {}).items()}
    return {key: _decode(value) for key, value in (found.get("data") or {}).items()}


def _decode(value: str) -> str:
    return base64.b64decode(value).decode(errors="surrogateescape")
