"""What every volume plugin is given and must do. ``manager.py`` builds the request; ``plugins/*`` answer it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from node.kubelet.interface import Mount, Pod
from node.kubelet.volumes.claims import Persistent

VOLUMES = "volumes"
DEVICES = "volumeDevices"
SUBPATHS = "volume-subpaths"
PLUGINS = "plugins"  # marks of plugins, beside the volumes


@dataclass(frozen=True, slots=True)
class VolumeRequest:
    """One volume of one pod. ``source`` is the plugin's own part of it; ``directory`` is where it must appear.

    ``persistent`` is the claim and the volume that a PersistentVolume's ``source`` comes from.
    """

    pod: Pod
    name: str
    source: Mapping[str, Any]
    directory: Path
    persistent: Persistent | None = None
    read_only: bool = False

    @property
    def mount_options(self) -> Sequence[str]:
        return list((self.persistent.volume.get("spec") or {}).get("mountOptions") or ()) if self.persistent else []

    @property
    def namespace(self) -> str:
        return str(self.pod["metadata"].get("namespace", "default"))

    @property
    def fs_group(self) -> int | None:
        group = (self.pod["spec"].get("securityContext") or {}).get("fsGroup")
        return None if group is None else int(group)

    @property
    def fs_group_on_root_mismatch(self) -> bool:
        return (self.pod["spec"].get("securityContext") or {}).get("fsGroupChangePolicy") == "OnRootMismatch"

    @property
    def fs_user(self) -> int | None:
        """The user all containers run as, if they agree: who may own a service account token."""
        spec = self.pod["spec"]
        of_pod = (spec.get("securityContext") or {}).get("runAsUser")
        containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
        users = {(item.get("securityContext") or {}).get("runAsUser", of_pod) for item in containers}
        only = users.pop() if len(users) == 1 else None
        return None if only is None else int(only)


class Plugin(Protocol):
    """Makes volumes of one kind. Idempotent: a second ``set_up`` on the same directory changes nothing needlessly."""

    @property
    def name(self) -> str:
        """Upstream's plugin name, such as ``kubernetes.io/empty-dir``."""
        ...

    @property
    def refreshes(self) -> bool:
        """Whether set_up must run again while the pod lives."""
        ...

    async def set_up(self, request: VolumeRequest) -> Mount:
        """Raises VolumeError or StatusError with the reason alone; the manager adds which volume failed."""
        ...


def directory_of(pod_dir: Path, plugin: str, volume: str) -> Path:
    """Upstream's layout: ``<pod>/volumes/kubernetes.io~secret/<volume>``."""
    return pod_dir / VOLUMES / plugin.replace("/", "~") / volume
