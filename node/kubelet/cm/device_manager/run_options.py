"""What the plugins' answers mean for a container: variables, mounts, devices, annotations. Pure.

``manager`` makes one per start of a container; ``runtime.containers`` hands it to the runtime. Where two plugins say different
things of one place, the first resource (by name) is heard. Source: upstream's ``deviceRunContainerOptions``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from component import logs
from node.kubelet.cm.device_manager.api import deviceplugin_v1beta1_pb2 as pb

_Value = TypeVar("_Value")
_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class PluginMount:
    """A folder or file of the host that a plugin wants in the container."""

    host_path: str
    container_path: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class PluginDevice:
    """A device node. ``permissions``: some of ``r``, ``w``, ``m``."""

    host_path: str
    container_path: str
    permissions: str = "rwm"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Everything that a container gets besides what its pod says."""

    environment: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[PluginMount, ...] = ()
    devices: tuple[PluginDevice, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi_devices: tuple[str, ...] = ()


NOTHING = RunOptions()


def combine(answers: Iterable[pb.ContainerAllocateResponse]) -> RunOptions:
    """One set of options from the answers for all resources of a container."""
    environment: dict[str, str] = {}
    annotations: dict[str, str] = {}
    mounts: dict[str, PluginMount] = {}
    devices: dict[str, PluginDevice] = {}
    cdi: dict[str, None] = {}
    for answer in answers:
        for name, value in sorted(answer.envs.items()):
            _first(environment, name, value, "environment variable")
        for mount in answer.mounts:
            _first(mounts, mount.container_path, PluginMount(mount.host_path, mount.container_path, mount.read_only), "mount")
        for each in answer.devices:
            _first(devices, each.container_path, PluginDevice(each.host_path, each.container_path, each.permissions), "device")
        for name, value in sorted(answer.annotations.items()):
            _first(annotations, name, value, "annotation")
        cdi.update(dict.fromkeys(each.name for each in answer.cdi_devices))
    return RunOptions(environment, tuple(mounts.values()), tuple(devices.values()), annotations, tuple(cdi))


def _first(table: dict[str, _Value], key: str, value: _Value, what: str) -> None:
    if table.setdefault(key, value) != value:
        _log.warning("Two device plugins disagree about a container, the first is heard", what=what, name=key)
