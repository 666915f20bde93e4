"""One pod's cycle: from a pod and the cluster to a decision. Does not await and changes nothing outside itself.

Called by ``scheduler`` for each popped pod. Local plugins answer through a kept ``Ranking``; the others are asked about the
nodes that are left. The answer is a value: ``Decision`` or ``Refusal``.
"""

import random
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from controlplane.scheduler.cache import Cache
from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.interface import FilterPlugin, ScorePlugin
from controlplane.scheduler.framework.runtime import Profile
from controlplane.scheduler.framework.status import Code, Status
from controlplane.scheduler.framework.types import NodeInfo, PodInfo
from controlplane.scheduler.plugins.default_preemption import Preemption, ineligible
from controlplane.scheduler.plugins.default_preemption import find as find_preemption
from controlplane.scheduler.ranking import Ranking

_KEPT = 32
_MINIMUM_NODES = 100
_MINIMUM_PERCENT = 5


@dataclass(frozen=True, slots=True)
class Decision:
    """The pod goes to ``node``. ``parts`` are the scores of the plugins that were asked, unweighted."""

    node: str
    state: CycleState
    feasible: int
    total: int
    score: int
    parts: dict[str, int]

    def why(self) -> str:
        """The choice in a few words, for people."""
        text = f"{self.feasible} of {self.total} nodes fit"
        if self.parts:
            text += f"; score {self.score}: " + ", ".join(f"{name} {score}" for name, score in self.parts.items())
        return text


@dataclass(frozen=True, slots=True)
class Refusal:
    """No node fits. ``statuses`` has the reason of each node that was asked."""

    total: int
    statuses: dict[str, Status] = field(default_factory=dict)
    upfront: Status | None = None
    """A plugin refused before any node was asked."""
    state: CycleState = field(default_factory=CycleState)
    skipped: frozenset[str] = frozenset()

    @property
    def plugins(self) -> set[str]:
        """Whose refusal it was: their events may cure it."""
        if self.upfront is not None:
            return {self.upfront.plugin}
        return {status.plugin for status in self.statuses.values()}

    def message(self) -> str:
        """Upstream's sentence: how many nodes for each reason."""
        if self.total == 0:
            return "no nodes available to schedule pods"
        text = f"0/{self.total} nodes are available:"
        if self.upfront is not None:
            return f"{text} {self.upfront.message}."
        counted = Counter(reason for status in self.statuses.values() for reason in status.reasons)
        if counted:
            text += " " + ", ".join(sorted(f"{count} {reason}" for reason, count in counted.items())) + "."
        return text


class Cycle:
    """Decides for the pods of one profile; keeps rankings of the latest kinds of pods."""

    def __init__(self, profile: Profile, cache: Cache, rng: random.Random | None = None, percentage: int = 0) -> None:
        self.profile = profile
        self._cache = cache
        self._random = rng or random.Random()  # noqa: S311 - breaks ties
        self._percentage = percentage
        self._rankings: OrderedDict[bytes, Ranking] = OrderedDict()
        self._start = 0

    def decide(self, pod: PodInfo) -> Decision | Refusal:
        total = self._cache.node_count()
        state = CycleState()
        if total == 0:
            return Refusal(0)
        status, names, skipped = self.profile.pre_filter(state, pod, self._cache)
        if status is not None:
            return Refusal(total, upfront=status)
        filters = [each for each in self.profile.global_filters if each.name not in skipped]
        if self._cache.has_nominations:
            nominated = self._cache.node(self._cache.nominated_node(pod.uid))
            if nominated is not None and self._judge(state, pod, nominated, skipped) is None:
                return Decision(nominated.name, state, 1, total, 0, {})
            filters.append(_RoomForNominated(self.profile, self._cache, skipped))
        scores = [each for each in self.profile.global_scores if each.relevant(pod, self._cache)]
        if names is not None:
            return self._among(pod, state, names, filters, scores, skipped)
        ranking = self._ranking(pod)
        if not scores:
            return self._best(pod, state, ranking, filters, skipped)
        refused: dict[str, Status] = {}
        nodes = self._feasible(pod, state, ranking.fits, filters, refused)
        if not nodes:
            return Refusal(total, {**ranking.refused, **refused}, state=state, skipped=skipped)
        return self._choose(pod, state, ranking, nodes, scores)

    def preempt(self, pod: PodInfo, refusal: Refusal) -> Preemption | str:
        """What must go so that the refused pod fits; or, for people, why nothing helps."""

        def judge(state: CycleState, node: NodeInfo) -> Status | None:
            return self._judge(state, pod, node, refusal.skipped)

        extensions = [each for each in self.profile.filter_extensions if _name(each) not in refusal.skipped]
        return find_preemption(pod, self._cache, refusal.state, refusal.statuses, judge, extensions)

    def may_preempt(self, pod: PodInfo) -> bool:
        """False while the victims of an earlier preemption are on their way out, and for pods that never preempt."""
        return ineligible(pod, self._cache) is None

    def _judge(self, state: CycleState, pod: PodInfo, node: NodeInfo, skipped: frozenset[str]) -> Status | None:
        """All filters, also with the pods that were promised room on the node."""
        room = _RoomForNominated(self.profile, self._cache, skipped)
        return self.profile.filter(state, pod, node, skipped) or room.filter(state, pod, node)

    def _ranking(self, pod: PodInfo) -> Ranking:
        held = self._rankings.get(pod.signature)
        if held is not None and held.shape == self._cache.shape:
            held.refresh(self._cache)
            self._rankings.move_to_end(pod.signature)
            return held
        made = self._rankings[pod.signature] = Ranking(self.profile, pod, self._cache, self._random)
        self._rankings.move_to_end(pod.signature)
        if len(self._rankings) > _KEPT:
            self._rankings.popitem(last=False)
        return made

    def _among(
        self,
        pod: PodInfo,
        state: CycleState,
        names: frozenset[str],
        filters: Sequence[FilterPlugin],
        scores: Sequence[ScorePlugin],
        skipped: frozenset[str],
    ) -> Decision | Refusal:
        """Only a few nodes come into question, as for the pods of a DaemonSet: no ranking of all is worth it."""
        total = self._cache.node_count()
        single = Ranking(self.profile, pod, Cache(), self._random)
        refused: dict[str, Status] = {}
        local: dict[str, int] = {}
        for name in names:
            node = self._cache.node(name)
            if node is None:
                continue
            status = single.judge(node)
            if status is not None:
                refused[name] = status
            else:
                local[name] = single.score(node)
        nodes = self._feasible(pod, state, local, filters, refused)
        if not nodes:
            narrowing = Status(Code.UNRESOLVABLE, ("node(s) didn't satisfy plugin(s) [NodeAffinity]",), "NodeAffinity")
            others = {node.name: narrowing for node in self._cache.nodes() if node.name not in names}
            return Refusal(total, {**others, **refused}, state=state, skipped=skipped)
        return self._choose(pod, state, single, nodes, scores, local)

    def _best(
        self, pod: PodInfo, state: CycleState, ranking: Ranking, filters: Sequence[FilterPlugin], skipped: frozenset[str]
    ) -> Decision | Refusal:
        """Nothing but local scores: the first in order that the other filters accept is the best."""
        total = self._cache.node_count()
        refused: dict[str, Status] = {}
        if not filters:
            best = ranking.best()
            if best is None:
                return Refusal(total, dict(ranking.refused), state=state, skipped=skipped)
            return self._decision(state, ranking, best, len(ranking.fits))
        for name in ranking.in_order():
            node = self._cache.node(name)
            status = _first_refusal(filters, state, pod, node) if node is not None else None
            if node is not None and status is None:
                return self._decision(state, ranking, name, len(ranking.fits) - len(refused))
            if status is not None:
                refused[name] = status
        return Refusal(total, {**ranking.refused, **refused}, state=state, skipped=skipped)

    def _decision(self, state: CycleState, ranking: Ranking, name: str, feasible: int) -> Decision:
        node = self._cache.node(name)
        assert node is not None
        parts = ranking.parts(node)
        return Decision(name, state, feasible, self._cache.node_count(), ranking.score(node), parts)

    def _feasible(
        self,
        pod: PodInfo,
        state: CycleState,
        fits: Iterable[str],
        filters: Sequence[FilterPlugin],
        refused: dict[str, Status],
    ) -> list[NodeInfo]:
        """Nodes that the other filters accept, at most as many as are worth scoring, starting where the last pod stopped."""
        names = list(fits)
        wanted = nodes_to_find(self._cache.node_count(), self._percentage)
        start = self._start % len(names) if names else 0
        found = []
        for position in range(len(names)):
            node = self._cache.node(names[(start + position) % len(names)])
            if node is None:
                continue
            status = _first_refusal(filters, state, pod, node)
            if status is not None:
                refused[node.name] = status
                continue
            found.append(node)
            if len(found) >= wanted:
                self._start = start + position + 1
                break
        return found

    def _choose(
        self,
        pod: PodInfo,
        state: CycleState,
        ranking: Ranking,
        nodes: Sequence[NodeInfo],
        scores: Sequence[ScorePlugin],
        local: dict[str, int] | None = None,
    ) -> Decision:
        fits = ranking.fits if local is None else local
        spread = self.profile.global_score(state, pod, self._cache, nodes, scores)
        weights = self.profile.weights
        totals = [fits[node.name] for node in nodes]
        for name, listed in spread.items():
            weight = weights[name]
            totals = [total + weight * score for total, score in zip(totals, listed, strict=True)]
        highest = max(totals)
        position = self._random.choice([index for index, total in enumerate(totals) if total == highest])
        chosen = nodes[position]
        parts = {**ranking.parts(chosen), **{name: listed[position] for name, listed in spread.items()}}
        return Decision(chosen.name, state, len(nodes), self._cache.node_count(), highest, parts)


class _RoomForNominated:
    """A filter beside the plugins: pods that were promised room on a node, and are no less important, count as there."""

    name: ClassVar[str] = "NodeResourcesFit"  # events that free resources wake those it refuses
    local: ClassVar[bool] = False

    def __init__(self, profile: Profile, cache: Cache, skipped: frozenset[str]) -> None:
        self._profile, self._cache, self._skipped = profile, cache, skipped

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        promised = self._cache.nominated_on(node.name, least_priority=pod.priority, but=pod.uid)
        if not promised:
            return None
        trial, trial_state = node.clone(), state.clone()
        for other in promised:
            trial.add(other)
            for each in self._profile.filter_extensions:
                if _name(each) not in self._skipped:
                    each.add_pod(trial_state, pod, other, trial)
        return self._profile.filter(trial_state, pod, trial, self._skipped)


def _name(plugin: object) -> str:
    return str(getattr(plugin, "name", ""))


def _first_refusal(filters: Sequence[FilterPlugin], state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
    for each in filters:
        status = each.filter(state, pod, node)
        if status is not None:
            return status
    return None


def nodes_to_find(total: int, percentage: int = 0) -> int:
    """In large clusters a part of the feasible nodes is enough: upstream's rule, from 100 nodes on."""
    if total < _MINIMUM_NODES:
        return total
    percent = percentage or max(_MINIMUM_PERCENT, 50 - total // 125)
    return max(_MINIMUM_NODES, total * min(percent, 100) // 100)
