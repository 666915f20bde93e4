"""ImageLocality: prefers nodes that hold the pod's images already, unless few nodes do."""

from collections.abc import Sequence
from typing import ClassVar

from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.events import Cure
from controlplane.scheduler.framework.interface import MAX_SCORE, Cluster
from controlplane.scheduler.framework.types import NodeInfo, PodInfo

_MEGABYTE = 1024 * 1024
_LEAST = 23 * _MEGABYTE  # smaller images are pulled in no time
_MOST = 1000 * _MEGABYTE


class ImageLocality:
    name: ClassVar[str] = "ImageLocality"
    score_local: ClassVar[bool] = True

    def cures(self) -> Sequence[Cure]:
        return []

    def pre_score(self, state: CycleState, pod: PodInfo, cluster: Cluster, nodes: Sequence[NodeInfo]) -> None:
        """Images on a small part of the nodes count less, so that pods do not crowd where one happened to run before."""
        total = max(1, cluster.node_count())
        spreads = {normalized(image): cluster.nodes_with_image(normalized(image)) / total for image in pod.images}
        state.write(self.name, spreads)

    def relevant(self, pod: PodInfo, cluster: Cluster) -> bool:
        return True

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        if not node.images:
            return 0
        spreads = state.read(self.name)
        found = sum(int(node.images.get(normalized(image), 0) * spreads[normalized(image)]) for image in pod.images)
        most = _MOST * max(1, len(pod.images))
        return MAX_SCORE * (min(max(found, _LEAST), most) - _LEAST) // (most - _LEAST)


def normalized(image: str) -> str:
    """Nodes report a tag always; a pod may leave ``:latest`` out."""
    if image.rfind(":") <= image.rfind("/"):
        return f"{image}:latest"
    return image
