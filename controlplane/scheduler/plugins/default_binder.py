"""DefaultBinder: writes the decision to the API server, through the pod's ``binding`` subresource."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar

from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.events import Cure
from controlplane.scheduler.framework.status import Status
from controlplane.scheduler.framework.types import PodInfo

Post = Callable[[str, str, dict[str, Any]], Awaitable[object]]
"""(namespace, pod, Binding): raises when the server refuses."""


class DefaultBinder:
    name: ClassVar[str] = "DefaultBinder"

    def __init__(self, post: Post) -> None:
        self._post = post

    def cures(self) -> Sequence[Cure]:
        return []

    async def bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """The uid makes the server refuse if the name now means another pod."""
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "target": {"kind": "Node", "name": node},
        }
        await self._post(pod.namespace, pod.name, binding)
        return None
