"""The contracts of the resource managers: what the topology manager asks of each, and what it tells them.

``topology_manager.manager`` calls every :class:`HintProvider` when a pod is taken; CPU, memory and device manager are such
providers. Each in turn asks :class:`Affinity` where to allocate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Pod = Mapping[str, Any]
Container = Mapping[str, Any]

UNEXPECTED = "UnexpectedAdmissionError"


@dataclass(frozen=True, slots=True)
class TopologyHint:
    """Where a resource could be allocated: on these NUMA nodes together.

    ``affinity``: ids of NUMA nodes, never empty; None for "anywhere". ``preferred``: no smaller set of nodes could ever hold
    the request.
    """

    affinity: frozenset[int] | None = None
    preferred: bool = False


Hints = Mapping[str, Sequence[TopologyHint] | None]
"""By resource name. None: this resource may be anywhere. No hint at all: it can be allocated nowhere. An empty mapping: this
provider does not mind."""


class AdmissionError(Exception):
    """The pod cannot be taken. ``reason`` and the text become those of its Failed status."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class DraError(Exception):
    """Devices of a claim cannot be made ready, or given back, now. The text is for people, in upstream's words."""


class Affinity(Protocol):
    """What the topology manager has decided."""

    def affinity(self, uid: str, container: str) -> TopologyHint:
        """Where to allocate for that container; ``TopologyHint(None, False)`` where nothing was decided."""
        ...


class HintProvider(Protocol):
    """One manager of one kind of resource. The topology manager calls it for one pod at a time, so that what was hinted is
    still true when it is allocated."""

    def topology_hints(self, pod: Pod, container: Container) -> Hints:
        """Where this container's resources could be; for a container that has been given them already, where they are."""
        ...

    def pod_topology_hints(self, pod: Pod) -> Hints:
        """Where the resources of all containers of the pod together could be."""
        ...

    async def allocate(self, pod: Pod, container: Container) -> None:
        """Give the container what it asks for, as :class:`Affinity` says. Idempotent: after a restart of the kubelet it is
        called again for pods that run. Init containers come first, in their order; what an init container has may go to the
        containers after it. Raises AdmissionError; anything else becomes an ``UnexpectedAdmissionError``."""
        ...

    def forget(self, uid: str) -> None:
        """Nothing of the pod runs any more: what it was given is free again. Idempotent, also for unknown pods."""
        ...
