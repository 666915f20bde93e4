"""The extension points. A plugin is a class with a ``name`` and the methods of the points it joins.

The order of a pod's cycle: PreFilter, Filter (per node), PostFilter (only if no node is left), PreScore, Score (per node),
Reserve, Permit; then, while other pods are scheduled, PreBind and Bind. Up to Permit everything runs without awaiting, so
a plugin sees one consistent state of the cluster.

``local`` plugins answer from the pod's signature and the one node alone: their answers are kept from pod to pod until the
node changes.
"""

from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence
from typing import ClassVar, Protocol, runtime_checkable

from apimachinery.labels import Selector
from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.events import Cure
from controlplane.scheduler.framework.status import Status
from controlplane.scheduler.framework.types import AffinityTerm, NodeInfo, PodInfo

MAX_SCORE = 100


class Cluster(Protocol):
    """All nodes as they are now, pods that are being bound included."""

    def nodes(self) -> Iterable[NodeInfo]: ...

    def node(self, name: str) -> NodeInfo | None: ...

    def node_count(self) -> int: ...

    def namespace_labels(self, name: str) -> Mapping[str, str]: ...

    def nodes_with_affinity(self) -> Collection[NodeInfo]:
        """Those with at least one pod that scores its neighbours: any affinity, or preferred anti-affinity."""
        ...

    def anti_terms(self, labels: Mapping[str, str]) -> Iterable[tuple[AffinityTerm, NodeInfo]]:
        """Required anti-affinity terms of running pods, and where these run; at least all that may match such labels."""
        ...

    def pods_selected(self, selector: Selector, namespace: str) -> Iterable[tuple[PodInfo, NodeInfo]]:
        """Running pods of one namespace that match, and where they run."""
        ...

    def users_of(self, claim: str) -> Iterable[PodInfo]:
        """Pods with a node that use a claim (``namespace/name``)."""
        ...

    def nodes_with_image(self, image: str) -> int: ...

    @property
    def has_preferred_taints(self) -> bool:
        """Whether any node has a ``PreferNoSchedule`` taint."""
        ...

    generation: int
    """Grows with every change of a node or of the pods on it."""
    shape: int
    """Moves when nodes come or go: what was counted per node is then void."""

    def changed_since(self, generation: int) -> Iterable[NodeInfo]:
        """Nodes that changed after ``generation``, so that counts can be kept from pod to pod."""
        ...


class Plugin(Protocol):
    """What all plugins have."""

    name: ClassVar[str]

    def cures(self) -> Sequence[Cure]:
        """The events that may make a pod fit which this plugin refused. None means that nothing does but time."""
        ...


@runtime_checkable
class PreFilterPlugin(Protocol):
    name: ClassVar[str]

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> tuple[Status | None, frozenset[str] | None]:
        """Look at the pod once. SKIP leaves this plugin's Filter out; a refusal ends the cycle; names narrow the nodes."""
        ...


@runtime_checkable
class FilterPlugin(Protocol):
    name: ClassVar[str]
    local: ClassVar[bool]

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Whether the pod may run on the node."""
        ...


@runtime_checkable
class FilterExtensions(Protocol):
    """For preemption: keep what PreFilter remembered true while pods are tried in and out of a node."""

    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> None: ...

    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> None: ...


@runtime_checkable
class PostFilterPlugin(Protocol):
    name: ClassVar[str]

    def post_filter(self, state: CycleState, pod: PodInfo) -> Awaitable[object] | None:
        """No node is left: what may help the pod, to be awaited beside the loop. Preemption follows, whatever comes of it."""
        ...


@runtime_checkable
class PreScorePlugin(Protocol):
    name: ClassVar[str]

    def pre_score(self, state: CycleState, pod: PodInfo, cluster: Cluster, nodes: Sequence[NodeInfo]) -> None:
        """Look once at the pod, and, if not local, at all feasible nodes."""
        ...


@runtime_checkable
class ScorePlugin(Protocol):
    name: ClassVar[str]
    score_local: ClassVar[bool]

    def relevant(self, pod: PodInfo, cluster: Cluster) -> bool:
        """Whether this plugin tells nodes apart for this pod; False spares it. Not asked of local plugins."""
        ...

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """0 (worst) to MAX_SCORE, or any integer if the plugin normalizes."""
        ...


@runtime_checkable
class NormalizePlugin(Protocol):
    name: ClassVar[str]

    def normalize(self, state: CycleState, pod: PodInfo, scores: list[int]) -> list[int]:
        """Bring all nodes' scores into 0 to MAX_SCORE."""
        ...


@runtime_checkable
class ReservePlugin(Protocol):
    name: ClassVar[str]

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status | None: ...

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Undo ``reserve``; called also when reserve was never reached, and may be called twice."""
        ...


@runtime_checkable
class PermitPlugin(Protocol):
    name: ClassVar[str]

    def permit(self, state: CycleState, pod: PodInfo, node: str) -> tuple[Status | None, float]:
        """None, a refusal, or WAIT with the seconds after which waiting becomes a refusal."""
        ...


@runtime_checkable
class PreBindPlugin(Protocol):
    name: ClassVar[str]

    def waits(self, state: CycleState) -> bool:
        """Whether ``pre_bind`` will wait for somebody else, for as long as that takes."""
        ...

    async def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | None: ...


@runtime_checkable
class BindPlugin(Protocol):
    name: ClassVar[str]

    async def bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """Tell the API server. SKIP leaves it to the next bind plugin."""
        ...
