"""What the kubelet's HTTP server sees of it: fulfils ``interface.KubeletFacade`` over the workers' and the runtime's state."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from apimachinery import errors as api_errors
from apimachinery.meta import uid_of
from apimachinery.objects import pods
from apimachinery.resources import PODS
from node.kubelet.interface import ContainerLog, Pod, StreamingRuntime
from node.kubelet.pleg import Pleg
from node.kubelet.pod_manager import PodManager
from node.kubelet.runtime import names, sandbox
from node.kubelet.runtime.observed import State
from node.kubelet.status import StatusManager

_STATUS_LISTS = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
_PULL_TROUBLE = {"ErrImagePull": "image can't be pulled", "ImagePullBackOff": "trying and failing to pull image"}


class Facade:
    """See the Protocol for the promises."""

    def __init__(
        self,
        node_name: str,
        streaming: StreamingRuntime,
        manager: PodManager,
        pleg: Pleg,
        status: StatusManager,
        pod_logs: Path,
        problems: Callable[[], Sequence[str]],
    ) -> None:
        self._node_name = node_name
        self._streaming = streaming
        self._manager = manager
        self._pleg = pleg
        self._status = status
        self._pod_logs = pod_logs
        self._problems = problems

    @property
    def node_name(self) -> str:
        return self._node_name

    @property
    def streaming(self) -> StreamingRuntime:
        return self._streaming

    def pods(self) -> Sequence[Pod]:
        return [self._current(pod) for pod in self._manager.pods()]

    def pod(self, namespace: str, name: str, uid: str | None = None) -> Pod:
        found = self._manager.by_name(namespace, name)
        if found is None or (uid and uid_of(found) != uid):
            raise api_errors.not_found(PODS.resource, name)
        return self._current(found)

    async def container_id(self, namespace: str, pod: str, container: str, *, uid: str | None = None) -> str:
        found = self.pod(namespace, pod, uid)
        running = self._pleg.get(uid_of(found)).latest(container)
        if running is None or running.state is not State.RUNNING:
            running = (await self._pleg.relist_pod(uid_of(found))).latest(container)
        if running is None or running.state is not State.RUNNING:
            raise _not_found(f'container not found ("{container}")')
        return running.id

    async def sandbox_id(self, namespace: str, pod: str, *, uid: str | None = None) -> str:
        found = self.pod(namespace, pod, uid)
        newest = self._pleg.get(uid_of(found)).sandbox
        if newest is None or not newest.ready:
            raise _not_found(f"failed to find sandboxID for pod {pod}")
        return newest.id

    async def container_log(self, namespace: str, pod: str, container: str, *, previous: bool = False) -> ContainerLog:
        found = self.pod(namespace, pod)
        if not any(each["name"] == container for each in pods.all_containers(found)):
            raise api_errors.bad_request(f"container {container} is not valid for pod {pod}")
        wanted = logged_instance(found, container, previous=previous)
        observed = self._pleg.get(uid_of(found))
        instance = next((each for each in observed.containers if each.id == wanted), None)
        if instance is None:
            raise api_errors.bad_request(f"unable to retrieve container logs for {container} in pod {pod}: {wanted} is gone")
        relative = names.container_log_path(container, instance.restart_count)
        path = Path(instance.log_path) if instance.log_path else sandbox.log_directory(found, self._pod_logs) / relative
        return ContainerLog(path, instance.id, instance.state is State.RUNNING)

    async def container_running(self, container_id: str) -> bool:
        for observed in self._pleg.pods().values():
            for container in observed.containers:
                if container.id == container_id:
                    return container.state is State.RUNNING
        return False

    def healthy(self) -> Sequence[str]:
        return self._problems()

    def _current(self, pod: Mapping[str, Any]) -> Pod:
        status = self._status.get(uid_of(pod))
        return {**pod, "status": {**(pod.get("status") or {}), **status}} if status else pod


def logged_instance(pod: Pod, container: str, *, previous: bool) -> str:
    """The id of the instance whose log is meant, by the pod's status: the last one that ran, or the one before it.

    Raises StatusError (400) that says why there is none, in the words that kubectl users know. Pure.
    """
    status = pod.get("status") or {}
    listed = [each for kind in _STATUS_LISTS for each in status.get(kind) or ()]
    found: Mapping[str, Any] = next((each for each in listed if each.get("name") == container), {})
    where = f'container "{container}" in pod "{pod["metadata"]["name"]}"'
    if not found:
        raise api_errors.bad_request(f"{where} is not available")
    state, last = found.get("state") or {}, _id((found.get("lastState") or {}).get("terminated"))
    if previous:
        if not last:
            raise api_errors.bad_request(f"previous terminated {where} not found")
        return last
    if "running" in state:
        return _id(found)
    if "terminated" in state:
        ended = _id(state["terminated"]) or last
        if not ended:
            raise api_errors.bad_request(f"{where} is terminated")
        return ended
    if last:
        return last
    reason = str((state.get("waiting") or {}).get("reason") or "")
    if not reason:
        raise api_errors.bad_request(f"{where} is waiting to start - no logs yet")
    raise api_errors.bad_request(f"{where} is waiting to start: {_PULL_TROUBLE.get(reason, reason)}")


def _id(holder: Mapping[str, Any] | None) -> str:
    """A containerID without the runtime's name."""
    return str((holder or {}).get("containerID") or "").partition("://")[2]


def _not_found(message: str) -> api_errors.StatusError:
    return api_errors.StatusError(api_errors.make_status(404, "NotFound", message))
