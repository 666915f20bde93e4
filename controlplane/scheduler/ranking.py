"""What local plugins say about every node for one kind of pod, kept from pod to pod. Used by ``cycle``.

Pods of one template ask the same of every node. Between two of them only the nodes that changed (most often the one that
got the last pod) are looked at again, so scheduling a replica costs the same on ten nodes as on a thousand.
"""

import heapq
import random
from collections.abc import Iterator

from controlplane.scheduler.cache import Cache
from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.interface import PreScorePlugin
from controlplane.scheduler.framework.runtime import Profile
from controlplane.scheduler.framework.status import Status
from controlplane.scheduler.framework.types import NodeInfo, PodInfo

_Entry = tuple[int, float, str]


class Ranking:
    """``fits`` maps nodes that may take the pod to their weighted local score, ``refused`` the others to why not."""

    def __init__(self, profile: Profile, pod: PodInfo, cache: Cache, rng: random.Random) -> None:
        self._profile, self._pod, self._random = profile, pod, rng
        self._state = CycleState()
        self._weighted = [(each, profile.weights[each.name]) for each in profile.local_scores]
        for each in profile.local_scores:
            if isinstance(each, PreScorePlugin):
                each.pre_score(self._state, pod, cache, ())
        self.shape = cache.shape
        self.fits: dict[str, int] = {}
        self.refused: dict[str, Status] = {}
        self._entries: dict[str, _Entry] = {}
        self._heap: list[_Entry] = []
        for node in cache.nodes():
            self._look(node)
        self._generation = cache.generation

    def refresh(self, cache: Cache) -> None:
        """Look again at what changed."""
        for node in cache.changed_since(self._generation):
            self._look(node)
        self._generation = cache.generation
        if len(self._heap) > 4 * len(self._entries) + 64:
            self._heap = list(self._entries.values())
            heapq.heapify(self._heap)

    def judge(self, node: NodeInfo) -> Status | None:
        for each in self._profile.local_filters:
            status = each.filter(self._state, self._pod, node)
            if status is not None:
                return status
        return None

    def score(self, node: NodeInfo) -> int:
        return sum(weight * each.score(self._state, self._pod, node) for each, weight in self._weighted)

    def parts(self, node: NodeInfo) -> dict[str, int]:
        """Each local plugin's score of one node, unweighted, for people."""
        return {each.name: each.score(self._state, self._pod, node) for each, _ in self._weighted}

    def _look(self, node: NodeInfo) -> None:
        status = self.judge(node)
        if status is not None:
            self.refused[node.name] = status
            self.fits.pop(node.name, None)
            self._entries.pop(node.name, None)
            return
        self.refused.pop(node.name, None)
        score = self.score(node)
        self.fits[node.name] = score
        entry = (-score, self._random.random(), node.name)  # equals in random order
        self._entries[node.name] = entry
        heapq.heappush(self._heap, entry)

    def best(self) -> str | None:
        """The node that fits with the highest score."""
        while self._heap:
            entry = self._heap[0]
            if self._entries.get(entry[2]) is entry:
                return entry[2]
            heapq.heappop(self._heap)
        return None

    def in_order(self) -> Iterator[str]:
        """All nodes that fit, best first; costs only as much as is asked for. Exhaust or drop it before the next call."""
        taken = []
        try:
            while self._heap:
                entry = heapq.heappop(self._heap)
                if self._entries.get(entry[2]) is entry:
                    taken.append(entry)
                    yield entry[2]
        finally:
            for entry in taken:
                heapq.heappush(self._heap, entry)
