"""Starts and stops single containers. ``manager`` calls it, one step of a plan at a time."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from apimachinery.meta import is_deleting, uid_of
from apimachinery.objects import pods
from component import logs
from cri import errors
from cri.api import runtime_v1_pb2 as pb
from node.kubelet.cm.device_manager.endpoint import PluginError
from node.kubelet.cm.device_manager.run_options import RunOptions
from node.kubelet.cm.interface import AdmissionError, DraError
from node.kubelet.images.pull import PullError
from node.kubelet.interface import Mount, VolumeError
from node.kubelet.runtime import container_config, dns, env, files, hooks, names, sandbox, security
from node.kubelet.runtime.container_config import BindMount, Device
from node.kubelet.runtime.gate import CONTAINER, to_its_end
from node.kubelet.runtime.host import Host
from node.kubelet.runtime.observed import ObservedContainer, ObservedPod, State
from node.kubelet.userns import IdRange

_log = logs.get(__name__)
_MINIMUM_AFTER_HOOK = 2
_UNPREPARED = (AdmissionError, DraError, PluginError)
"""A device cannot be had, or made ready, now."""

Pod = Mapping[str, Any]
Container = Mapping[str, Any]


class StartError(Exception):
    """A container did not start. ``reason`` and the text become its waiting state until it is tried again."""

    def __init__(self, reason: str, message: str, retry_after: float = 5.0) -> None:
        super().__init__(message)
        self.reason = reason
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Place:
    """Where the containers of one pod go: its sandbox and the volumes that were made ready for it."""

    pod: Pod
    observed: ObservedPod
    sandbox_id: str
    config: pb.PodSandboxConfig
    ips: Sequence[str]
    volumes: Mapping[str, Mount]
    users: IdRange | None = None


class Containers:
    """See the module; all state is in the runtime and on the disk."""

    def __init__(self, host: Host, ended: Callable[[str], None] = lambda container_id: None) -> None:
        """``ended`` hears of each container that was stopped, before anything else is done to its pod."""
        self._host = host
        self._ended = ended

    async def start(self, place: Place, container: Container) -> None:
        """Pull, create, start, and run postStart. Raises StartError."""
        host, pod, name = self._host, place.pod, str(container["name"])
        latest = place.observed.latest(name)
        if latest is not None and latest.state is State.CREATED and latest.sandbox_id == place.sandbox_id:
            container_id = latest.id  # a kubelet died between creating and starting it
        else:
            try:
                image = await host.images.ensure(pod, container, place.config)
            except PullError as error:
                host.events.warning(pod, "Failed", f"Error: {error.reason}", name)
                raise StartError(error.reason, str(error), error.retry_after) from None
            container_id = await self._create(place, container, image)
        try:
            async with host.gate.passing(CONTAINER):
                await to_its_end(host.runtime.start_container(container_id))
        except errors.RuntimeServiceError as error:
            host.events.warning(pod, "Failed", f"Error: {error.details}", name)
            raise StartError("RunContainerError", error.details) from None
        host.events.normal(pod, "Started", "Container started", name)
        await self._post_start(place, container, container_id)

    async def _create(self, place: Place, container: Container, image: pb.Image) -> str:
        host, pod, name = self._host, place.pod, str(container["name"])
        log_root = sandbox.log_directory(pod, host.config.pod_logs_dir)
        logged = await asyncio.to_thread(files.make_log_dir, log_root, name)
        latest = place.observed.latest(name)
        restarts = latest.restart_count + 1 if latest is not None else logged
        try:
            config = await self._config(place, container, image, restarts)
        except PullError as error:  # of an image volume
            raise StartError(error.reason, str(error), error.retry_after) from None
        except (env.EnvError, security.SecurityError, VolumeError, *_UNPREPARED, OSError) as error:
            host.events.warning(pod, "Failed", f"Error: {error}", name)
            raise StartError("CreateContainerConfigError", str(error)) from None
        await self._discard_old(place.observed, name, log_root)
        try:
            async with host.gate.passing(CONTAINER):
                container_id = await to_its_end(host.runtime.create_container(place.sandbox_id, config, place.config))
        except errors.RuntimeServiceError as error:
            host.events.warning(pod, "Failed", f"Error: {error.details}", name)
            raise StartError("CreateContainerError", error.details) from None
        host.events.normal(pod, "Created", "Container created", name)
        return container_id

    async def _config(self, place: Place, container: Container, image: pb.Image, restarts: int) -> pb.ContainerConfig:
        host = self._host
        addressed = _with_addresses(place.pod, place.ips or host.node_ips(), host.node_ips())

        async def read_file(volume: str, path: str) -> bytes | None:
            if (found := place.volumes.get(volume)) is None:
                raise VolumeError(f'cannot find the volume "{volume}" referenced by FileKeyRef')
            return await host.volumes.read_file(found, path)

        environment = await env.environment(addressed, container, host.objects, host.services(), host.allocatable(), read_file)
        options = await host.device_options(place.pod, container)
        target = container.get("targetContainerName")
        aimed = place.observed.latest(str(target)) if target else None
        return container_config.container_config(
            container_config.Ingredients(
                pod=place.pod,
                container=container,
                restart_count=restarts,
                image=image,
                environment={**options.environment, **environment},
                devices=[*_plugin_devices(options), *_devices(place, container)],
                cdi_devices=[*options.cdi_devices, *host.claim_devices(place.pod, container)],
                annotations=options.annotations,
                mounts=[
                    *_plugin_mounts(options),
                    *await self._volume_mounts(place, container, environment),
                    *await self._own_files(place, container),
                ],
                node=host.limits,
                pinning=host.pinning(place.pod, container),
                seccomp=security.Seccomp(host.config.root_dir / "seccomp", host.config.seccomp_default),
                users=place.users,
                target_id=aimed.id if aimed else "",
            )
        )

    async def _volume_mounts(self, place: Place, container: Container, environment: Mapping[str, str]) -> list[BindMount]:
        host, name = self._host, str(container["name"])
        pod_dir = host.config.pod_dir(uid_of(place.pod))
        made: list[BindMount] = []
        for index, wanted in enumerate(container.get("volumeMounts") or ()):
            volume = place.volumes.get(wanted["name"])
            if volume is None:
                raise VolumeError(f'cannot find volume "{wanted["name"]}" to mount into container "{name}"')
            path = str(wanted.get("subPath") or "")
            if wanted.get("subPathExpr"):
                path = env.expand(str(wanted["subPathExpr"]), environment)
            source = volume.host_path
            if volume.image:
                made.append(await self._image_mount(place, wanted, volume, path))
                continue
            if path:
                source = await host.volumes.sub_path(volume, path, pod_dir, wanted["name"], name, index)
            inside = str(PurePosixPath("/", wanted["mountPath"]))
            read_only = bool(wanted.get("readOnly")) or volume.read_only
            propagation = str(wanted.get("mountPropagation") or "None")
            recursive = recursive_read_only(wanted, volume.read_only, host.recursive_read_only())
            made.append(BindMount(source, inside, read_only, propagation, recursive))
        return made

    async def _image_mount(self, place: Place, wanted: Mapping[str, Any], volume: Mount, path: str) -> BindMount:
        """A volume that the runtime mounts out of an image, which is pulled as those of containers are."""
        described = {"name": wanted["name"], "image": volume.image, "imagePullPolicy": volume.image_policy or None}
        image = await self._host.images.ensure(place.pod, described, place.config)
        inside = str(PurePosixPath("/", wanted["mountPath"]))
        return BindMount(volume.host_path, inside, True, image=image.id, image_sub_path=path)

    async def _own_files(self, place: Place, container: Container) -> list[BindMount]:
        """``/etc/hosts`` and the termination log, unless the pod mounts something there itself."""
        host = self._host
        pod_dir = host.config.pod_dir(uid_of(place.pod))
        taken = {str(PurePosixPath("/", each["mountPath"])) for each in container.get("volumeMounts") or ()}
        made: list[BindMount] = []
        if "/etc/hosts" not in taken:
            text = dns.hosts_file(place.pod, place.ips, host.config.cluster_domain, host.host_file())
            made.append(BindMount(await asyncio.to_thread(files.write_hosts_file, pod_dir, text), "/etc/hosts"))
        message_path = str(container.get("terminationMessagePath") or "")
        if message_path and message_path not in taken:
            written = await asyncio.to_thread(files.termination_log, pod_dir, str(container["name"]))
            made.append(BindMount(written, message_path))
        return made

    async def _discard_old(self, observed: ObservedPod, name: str, log_root: Path) -> None:
        """Keep one dead instance, for its exit code and ``logs --previous``; older ones go before a new one comes."""
        dead = [each for each in observed.containers if each.name == name and each.state is not State.RUNNING]
        for old in dead[1:]:
            try:
                await self._host.runtime.remove_container(old.id)
            except errors.RuntimeServiceError as error:
                _log.warning("Cannot remove a dead container", container=old.id, err=error)
                continue
            await asyncio.to_thread(files.remove_logs, log_root, name, old.restart_count)

    async def _post_start(self, place: Place, container: Container, container_id: str) -> None:
        handler = (container.get("lifecycle") or {}).get("postStart")
        if not handler:
            return
        host, name = self._host, str(container["name"])
        ip = (place.ips or host.node_ips() or ("",))[0]
        try:
            await hooks.run_hook(handler, container, container_id, ip, host.runtime, host.clock)
        except hooks.HookError as error:
            host.events.warning(place.pod, "FailedPostStartHook", f"PostStartHook failed: {error}", name)
            started = ObservedContainer(container_id, name, "", State.RUNNING)
            await self.stop(place.pod, started, "FailedPostStartHook", place.ips)
            raise StartError("PostStartHookError", str(error)) from None

    async def stop(
        self,
        pod: Pod | None,
        running: ObservedContainer,
        message: str,
        ips: Sequence[str],
        grace: int | None = None,
        probe: str = "",
    ) -> None:
        """preStop, then the stop signal, then SIGKILL when the grace period is over; the signal is never held back.

        ``pod`` may be lost (deleted by force, or after a restart): then the container's annotations say what they can.
        Raises ``cri.errors``.
        """
        host = self._host
        container = _spec_of(pod, running.name)
        seconds = grace if grace is not None else grace_of(pod, container, running, probe)
        if pod is not None:
            host.events.normal(pod, "Killing", message or f"Stopping container {running.name}", running.name)
        handler = _pre_stop(container, running)
        if handler and seconds > 0:
            began = host.clock.monotonic()
            await self._pre_stop(pod, handler, container or {"name": running.name}, running, ips, seconds)
            left = seconds - int(host.clock.monotonic() - began)
            seconds = max(left, _MINIMUM_AFTER_HOOK)
        await host.runtime.stop_container(running.id, seconds)
        self._ended(running.id)

    async def _pre_stop(
        self,
        pod: Pod | None,
        handler: Mapping[str, Any],
        container: Container,
        running: ObservedContainer,
        ips: Sequence[str],
        limit: int,
    ) -> None:
        host = self._host
        ip = (ips or host.node_ips() or ("",))[0]
        try:
            await hooks.run_hook(handler, container, running.id, ip, host.runtime, host.clock, limit)
        except hooks.HookError as error:
            _log.warning("preStop hook failed", container=running.name, err=error)
            if pod is not None:
                host.events.warning(pod, "FailedPreStopHook", f"PreStopHook failed: {error}", running.name)


def _devices(place: Place, container: Container) -> list[Device]:
    """``volumeDevices``: bare devices. Raises VolumeError."""
    made = []
    for wanted in container.get("volumeDevices") or ():
        volume = place.volumes.get(wanted["name"])
        if volume is None or not volume.is_block:
            raise VolumeError(f'cannot find volume "{wanted["name"]}" to pass into container "{container["name"]}"')
        made.append(Device(volume.host_path, wanted["devicePath"], volume.read_only))
    return made


def _plugin_devices(options: RunOptions) -> list[Device]:
    return [Device(Path(each.host_path), each.container_path, permissions=each.permissions) for each in options.devices]


def _plugin_mounts(options: RunOptions) -> list[BindMount]:
    return [BindMount(Path(each.host_path), each.container_path, each.read_only) for each in options.mounts]


def recursive_read_only(wanted: Mapping[str, Any], read_only: bool, supported: bool) -> bool:
    """Whether what is mounted below a read-only volume is read-only, too. Raises VolumeError, in upstream's words. Pure."""
    mode, name = wanted.get("recursiveReadOnly") or "Disabled", wanted["name"]
    if mode == "Disabled":
        return False
    if not wanted.get("readOnly") and not read_only:
        raise VolumeError(f'volume "{name}" requested recursive read-only mode, but it is not read-only')
    propagation = wanted.get("mountPropagation") or "None"
    if propagation != "None":
        text = f"requested recursive read-only mode, but it is not compatible with propagation {propagation}"
        raise VolumeError(f'volume "{name}" {text}')
    if mode == "Enabled" and not supported:
        raise VolumeError(f'volume "{name}" requested recursive read-only mode, but it is not supported by the runtime')
    return supported


def grace_of(pod: Pod | None, container: Container | None, running: ObservedContainer, probe: str = "") -> int:
    """Seconds between the stop signal and SIGKILL."""
    if pod is None:
        text = running.annotations.get(names.TERMINATION_GRACE, "")
        return int(text) if text.isdigit() else names.DEFAULT_GRACE
    if is_deleting(pod):
        asked = pod["metadata"].get("deletionGracePeriodSeconds")
        return max(int(asked), 1) if asked is not None else names.DEFAULT_GRACE
    field = {"liveness probe": "livenessProbe", "startup probe": "startupProbe"}.get(probe)
    own = ((container or {}).get(field) or {}).get("terminationGracePeriodSeconds") if field else None
    if own is not None:
        return int(own)
    asked = pods.spec_of(pod).get("terminationGracePeriodSeconds")
    return int(asked) if asked is not None else names.DEFAULT_GRACE


def _spec_of(pod: Pod | None, name: str) -> Container | None:
    return next((each for each in pods.all_containers(pod) if each["name"] == name), None) if pod is not None else None


def _pre_stop(container: Container | None, running: ObservedContainer) -> Mapping[str, Any] | None:
    if container is not None:
        return (container.get("lifecycle") or {}).get("preStop")
    text = running.annotations.get(names.PRE_STOP_HANDLER)
    try:
        return json.loads(text) if text else None
    except ValueError:
        return None


def _with_addresses(pod: Pod, ips: Sequence[str], node_ips: Sequence[str]) -> Pod:
    """The pod as its downward API shall see it: the addresses are known before the status is reported."""
    status = {
        **(pod.get("status") or {}),
        "podIP": ips[0] if ips else "",
        "podIPs": [{"ip": ip} for ip in ips],
        "hostIP": node_ips[0] if node_ips else "",
        "hostIPs": [{"ip": ip} for ip in node_ips],
    }
    return {**pod, "status": status}
