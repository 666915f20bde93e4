"""Where the kubelet's rooms meet: what ``volumes/`` and ``server/`` are given, and what they give back.

``kubelet.py`` hands a :class:`KubeletFacade` to ``server.Server`` and an :class:`ObjectSource` to
``volumes.manager.VolumeManager``; the pod workers see volumes only through :class:`VolumeManager` here.
Pods are plain dicts out of an informer: nobody changes them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

Pod = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Mount:
    """A volume made ready on this host, to be bound into containers.

    ``read_only`` forces every container mount of it to be read-only (configMap, secret, projected, downwardAPI).
    ``is_file`` tells that ``host_path`` is a file or device (hostPath), so that a ``subPath`` in it is an error.
    ``is_block``: a bare device, for ``volumeDevices``. ``image`` names an image that the runtime itself mounts, to be pulled
    by ``image_policy``; then there is no ``host_path``.
    """

    host_path: Path
    read_only: bool = False
    is_file: bool = False
    is_block: bool = False
    image: str = ""
    image_policy: str = ""


@dataclass(frozen=True, slots=True)
class VolumeStats:
    """How full one volume of a pod is, in bytes and inodes; None for what its driver does not say.

    ``claim`` is (namespace, name) of the claim behind it; ``abnormal`` what a driver says of its health.
    """

    name: str
    claim: tuple[str, str] | None = None
    capacity: int | None = None
    available: int | None = None
    used: int | None = None
    inodes: int | None = None
    inodes_free: int | None = None
    inodes_used: int | None = None
    abnormal: bool | None = None


class VolumeError(Exception):
    """A volume cannot be mounted (yet). The text goes into the event ``FailedMount`` as it stands:
    ``MountVolume.SetUp failed for volume "x" : configmap "y" not found``. The pod is tried again, with back-off."""


class VolumeManager(Protocol):
    """Mounts and unmounts the volumes of pods. All methods are idempotent and may run for several pods at once."""

    async def mount(self, pod: Pod, pod_dir: Path) -> Mapping[str, Mount]:
        """Make every volume of ``spec.volumes`` ready below ``pod_dir/volumes`` (upstream's layout, plugin names with
        ``~`` for ``/``) and return them by volume name. Raises VolumeError. ``pod_dir`` exists, mode 0750."""
        ...

    async def sub_path(self, mount: Mount, path: str, pod_dir: Path, volume: str, container: str, index: int) -> Path:
        """What to bind for a volumeMount with ``subPath`` (expanded already). Raises VolumeError."""
        ...

    async def read_file(self, mount: Mount, path: str) -> bytes | None:
        """A small file of a volume; None when there is none. Raises VolumeError for one that leads out of the volume, is no
        regular file or is too large."""
        ...

    async def refresh(self, pod: Pod) -> None:
        """Bring configMap, secret, projected and downwardAPI volumes of a running pod up to date, by atomic swap.
        Also renews service account tokens past 80 % of their life. Raises VolumeError."""
        ...

    async def unmount(self, uid: str, pod_dir: Path) -> None:
        """Unmount and delete the volumes of a pod whose containers are gone; knows them from the disk alone, because
        after a restart of the kubelet the pod may no longer exist in the API. Never follows symbolic links."""
        ...

    async def stats(self, pod: Pod) -> Sequence[VolumeStats]:
        """How full the pod's volumes are, as far as that can be told. Raises VolumeError or OSError."""
        ...

    async def sweep(self) -> None:
        """Undo what was made for the whole node, and what no pod uses any more. Called now and then."""
        ...


class ObjectSource(Protocol):
    """The API objects that pods refer to, cached briefly by the kubelet. Misses raise ``StatusError`` (404)."""

    async def config_map(self, namespace: str, name: str) -> Mapping[str, Any]: ...

    async def secret(self, namespace: str, name: str) -> Mapping[str, Any]: ...

    async def runtime_class(self, name: str) -> Mapping[str, Any]: ...
    async def trust_bundle(self, name: str) -> Mapping[str, Any]:
        """A ClusterTrustBundle."""
        ...

    async def trust_bundles(self, signer: str, selector: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """Those of one signer that a label selector selects. Not cached."""
        ...

    async def claim(self, namespace: str, name: str) -> Mapping[str, Any]:
        """A PersistentVolumeClaim, as it is now: a pod waits for it to be bound."""
        ...

    async def volume(self, name: str) -> Mapping[str, Any]:
        """A PersistentVolume, as it is now."""
        ...

    async def csi_driver(self, name: str) -> Mapping[str, Any] | None:
        """The CSIDriver object, if there is one."""
        ...

    async def volume_attachment(self, name: str) -> Mapping[str, Any]:
        """As it is now: a pod waits for it."""
        ...

    async def service_account_token(self, namespace: str, name: str, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        """TokenRequest with that ``spec`` (audiences, expirationSeconds, boundObjectRef); the whole answer. Not cached."""
        ...


class StreamingRuntime(Protocol):
    """The calls of CRI that answer with the URL of a stream on the runtime's own streaming server."""

    async def exec(
        self, container_id: str, command: Sequence[str], *, stdin: bool, stdout: bool, stderr: bool, tty: bool
    ) -> str: ...

    async def attach(self, container_id: str, *, stdin: bool, stdout: bool, stderr: bool, tty: bool) -> str: ...

    async def port_forward(self, sandbox_id: str, ports: Sequence[int]) -> str: ...


@dataclass(frozen=True, slots=True)
class ContainerLog:
    """Where one container instance logs. ``path`` may not exist yet; rotated files lie beside it."""

    path: Path
    container_id: str
    running: bool


class KubeletFacade(Protocol):
    """All that the kubelet's HTTP server may ask. Every failure is a ``StatusError`` with upstream's text."""

    @property
    def node_name(self) -> str: ...

    @property
    def streaming(self) -> StreamingRuntime: ...

    def pods(self) -> Sequence[Pod]:
        """Every pod of this node, statuses as last computed here (fresher than the API's)."""
        ...

    def pod(self, namespace: str, name: str, uid: str | None = None) -> Pod:
        """404 ``pods "x" not found`` if it is not on this node."""
        ...

    async def container_id(self, namespace: str, pod: str, container: str, *, uid: str | None = None) -> str:
        """The running instance, for exec and attach: id without ``containerd://``. Errors: not found, not running."""
        ...

    async def sandbox_id(self, namespace: str, pod: str, *, uid: str | None = None) -> str:
        """The ready sandbox, for port-forward."""
        ...

    async def container_log(self, namespace: str, pod: str, container: str, *, previous: bool = False) -> ContainerLog:
        """400 ``container "c" in pod "p" is waiting to start: ContainerCreating`` and the like, as upstream."""
        ...

    async def container_running(self, container_id: str) -> bool:
        """Whether ``logs --follow`` should go on waiting. False for an instance that is gone."""
        ...

    def healthy(self) -> Sequence[str]:
        """Reasons why ``/healthz`` must fail, such as ``PLEG is not healthy``; empty when all is well."""
        ...
