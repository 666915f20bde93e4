"""The plugins of one profile, sorted by extension point, in the order of the configuration.

Built by ``plugins.catalog`` from the configuration; used by ``cycle``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.events import Cure
from controlplane.scheduler.framework.interface import (
    BindPlugin,
    Cluster,
    FilterExtensions,
    FilterPlugin,
    NormalizePlugin,
    PermitPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ReservePlugin,
    ScorePlugin,
)
from controlplane.scheduler.framework.status import Code, Status
from controlplane.scheduler.framework.types import NodeInfo, PodInfo


class Profile:
    """``weights`` has an entry for every plugin that scores in this profile; ``filtering`` names those that filter."""

    def __init__(
        self,
        scheduler_name: str,
        plugins: Sequence[Any],
        weights: Mapping[str, int],
        filtering: frozenset[str] | None = None,
    ) -> None:
        self.scheduler_name = scheduler_name
        self.plugins = list(plugins)
        chosen = [each for each in plugins if filtering is None or each.name in filtering]
        self.pre_filters: list[PreFilterPlugin] = [each for each in chosen if isinstance(each, PreFilterPlugin)]
        filters: list[FilterPlugin] = [each for each in chosen if isinstance(each, FilterPlugin)]
        self.local_filters = [each for each in filters if each.local]
        self.global_filters = [each for each in filters if not each.local]
        scores: list[ScorePlugin] = [each for each in plugins if isinstance(each, ScorePlugin) and weights.get(each.name)]
        self.weights = weights
        self.local_scores = [each for each in scores if each.score_local]
        self.global_scores = [each for each in scores if not each.score_local]
        self._prepare = {each.name: each.pre_score for each in plugins if isinstance(each, PreScorePlugin)}
        self._normalize = {each.name: each.normalize for each in plugins if isinstance(each, NormalizePlugin)}
        self.filter_extensions: list[FilterExtensions] = [each for each in chosen if isinstance(each, FilterExtensions)]
        self.post_filters: list[PostFilterPlugin] = [each for each in plugins if isinstance(each, PostFilterPlugin)]
        self.reserves: list[ReservePlugin] = [each for each in plugins if isinstance(each, ReservePlugin)]
        self.permits: list[PermitPlugin] = [each for each in plugins if isinstance(each, PermitPlugin)]
        self.pre_binds: list[PreBindPlugin] = [each for each in plugins if isinstance(each, PreBindPlugin)]
        self.binds: list[BindPlugin] = [each for each in plugins if isinstance(each, BindPlugin)]

    def cures(self) -> dict[str, Sequence[Cure]]:
        return {each.name: each.cures() for each in self.plugins}

    def pre_filter(
        self, state: CycleState, pod: PodInfo, cluster: Cluster
    ) -> tuple[Status | None, frozenset[str] | None, frozenset[str]]:
        """(refusal, the only nodes worth looking at or None for all, plugins whose Filter can be left out)."""
        names: frozenset[str] | None = None
        skipped = set()
        for each in self.pre_filters:
            status, narrowed = each.pre_filter(state, pod, cluster)
            if status is not None:
                if status.code is not Code.SKIP:
                    return status, None, frozenset()
                skipped.add(each.name)
            if narrowed is not None:
                names = narrowed if names is None else names & narrowed
        return None, names, frozenset(skipped)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo, skipped: frozenset[str]) -> Status | None:
        """The first refusal, over all filters; for single nodes, as preemption tries them."""
        for each in (*self.local_filters, *self.global_filters):
            if each.name not in skipped:
                status = each.filter(state, pod, node)
                if status is not None:
                    return status
        return None

    def global_score(
        self, state: CycleState, pod: PodInfo, cluster: Cluster, nodes: Sequence[NodeInfo], plugins: Sequence[ScorePlugin]
    ) -> dict[str, list[int]]:
        """For each plugin its scores of ``nodes``, normalized and not yet weighted."""
        found = {}
        for each in plugins:
            prepare, normalize = self._prepare.get(each.name), self._normalize.get(each.name)
            if prepare is not None:
                prepare(state, pod, cluster, nodes)
            scores = [each.score(state, pod, node) for node in nodes]
            found[each.name] = normalize(state, pod, scores) if normalize is not None else scores
        return found
