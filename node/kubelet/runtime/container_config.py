"""One container as CRI wants it: command, environment, mounts, limits, security, and the labels that identify it.

``containers`` gathers what needs I/O (environment, volumes, image) and calls :func:`container_config`, which is pure.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apimachinery.meta import is_deleting
from apimachinery.objects import pods
from cri.api import runtime_v1_pb2 as pb
from node.kubelet.resize.plan import resources_of
from node.kubelet.runtime import env, names, resources, sandbox, security
from node.kubelet.userns import IdRange

_PROPAGATION = {
    "None": pb.PROPAGATION_PRIVATE,
    "HostToContainer": pb.PROPAGATION_HOST_TO_CONTAINER,
    "Bidirectional": pb.PROPAGATION_BIDIRECTIONAL,
}


@dataclass(frozen=True, slots=True)
class BindMount:
    """A host path at a place in the container."""

    host_path: Path
    container_path: str
    read_only: bool = False
    propagation: str = "None"
    recursive_read_only: bool = False
    image: str = ""
    image_sub_path: str = ""


@dataclass(frozen=True, slots=True)
class Device:
    """A device of the host in the container."""

    host_path: Path
    container_path: str
    read_only: bool = False
    permissions: str = "rwm"
    """What else a plugin asks for, of r, w and m."""


@dataclass(frozen=True, slots=True)
class Ingredients:
    """What was gathered for one start of one container."""

    pod: Mapping[str, Any]
    container: Mapping[str, Any]
    restart_count: int
    image: pb.Image
    environment: Mapping[str, str]
    mounts: Sequence[BindMount]
    seccomp: security.Seccomp
    users: IdRange | None = None
    devices: Sequence[Device] = ()
    cdi_devices: Sequence[str] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Those that plugins want; the kubelet's own come over them."""
    node: resources.Node = field(default_factory=resources.Node)
    pinning: resources.Pinning = resources.ANYWHERE
    target_id: str = ""


def container_config(given: Ingredients) -> pb.ContainerConfig:
    """Raises ``security.SecurityError``."""
    pod, container = given.pod, given.container
    security.verify_non_root(pod, container, given.image)
    context = security.container_context(pod, container, given.image, given.seccomp, given.users)
    if given.target_id:
        context.namespace_options.pid = pb.TARGET
        context.namespace_options.target_id = given.target_id
    limits = resources.container_resources(pod, container, given.node, given.pinning)
    return pb.ContainerConfig(
        metadata=pb.ContainerMetadata(name=container["name"], attempt=given.restart_count),
        image=pb.ImageSpec(image=given.image.id, user_specified_image=str(container.get("image") or "")),
        command=env.expand_all(container.get("command"), given.environment),
        args=env.expand_all(container.get("args"), given.environment),
        working_dir=str(container.get("workingDir") or ""),
        envs=[pb.KeyValue(key=key, value=value.encode(errors="surrogateescape")) for key, value in given.environment.items()],
        mounts=[_mount(mount, given.users) for mount in given.mounts],
        devices=[_device(device) for device in given.devices],
        CDI_devices=[pb.CDIDevice(name=name) for name in given.cdi_devices],
        labels={**sandbox.identity(pod), names.CONTAINER_NAME: container["name"]},
        annotations={**given.annotations, **_annotations(pod, container, given.restart_count)},
        log_path=names.container_log_path(container["name"], given.restart_count),
        stdin=bool(container.get("stdin")),
        stdin_once=bool(container.get("stdinOnce")),
        tty=bool(container.get("tty")),
        linux=pb.LinuxContainerConfig(resources=limits, security_context=context),
        stop_signal=stop_signal(container),
    )


def stop_signal(container: Mapping[str, Any]) -> pb.Signal:
    """``lifecycle.stopSignal`` in CRI's words (``SIGRTMIN+1`` is ``SIGRTMINPLUS1``); nothing said: as the image says."""
    name = str((container.get("lifecycle") or {}).get("stopSignal") or "RUNTIME_DEFAULT")
    signal: pb.Signal = getattr(pb, name.replace("+", "PLUS").replace("-", "MINUS"))
    return signal


def _mount(mount: BindMount, users: IdRange | None) -> pb.Mount:
    """In a user namespace, files keep their owners as the container sees them: the runtime maps ids of the mount."""
    mapping = [security.id_mapping(users)] if users is not None and not mount.image else ()
    return pb.Mount(
        host_path="" if mount.image else str(mount.host_path),
        container_path=mount.container_path,
        readonly=mount.read_only,
        recursive_read_only=mount.recursive_read_only,
        propagation=_PROPAGATION[mount.propagation],
        image=pb.ImageSpec(image=mount.image) if mount.image else None,
        image_sub_path=mount.image_sub_path,
        uidMappings=mapping,
        gidMappings=mapping,
    )


def _device(device: Device) -> pb.Device:
    permissions = "r" if device.read_only else device.permissions
    return pb.Device(host_path=str(device.host_path), container_path=device.container_path, permissions=permissions)


def _annotations(pod: Mapping[str, Any], container: Mapping[str, Any], restart_count: int) -> dict[str, str]:
    made = {
        names.CONTAINER_HASH: names.container_hash(container),
        names.RESTART_COUNT: str(restart_count),
        names.TERMINATION_MESSAGE_PATH: str(container.get("terminationMessagePath") or ""),
        names.TERMINATION_MESSAGE_POLICY: str(container.get("terminationMessagePolicy") or "File"),
    }
    if any((given := resources_of(container)).values()):
        made[names.RESOURCES] = json.dumps(given, separators=(",", ":"))
    grace = pods.spec_of(pod).get("terminationGracePeriodSeconds")
    if grace is not None and not is_deleting(pod):
        made[names.TERMINATION_GRACE] = str(grace)
    if pre_stop := (container.get("lifecycle") or {}).get("preStop"):
        made[names.PRE_STOP_HANDLER] = json.dumps(pre_stop, separators=(",", ":"))
    if ports := container.get("ports"):
        made[names.CONTAINER_PORTS] = json.dumps(ports, separators=(",", ":"))
    return made
