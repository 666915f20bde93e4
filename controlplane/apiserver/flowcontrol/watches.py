"""How many open watches a write concerns. Fed by ``filters.priority_and_fairness``, read for the width of writes.

Follows upstream's ``watch_tracker.go``. A watch on the pods of one node counts for no write: nobody knows yet whose it is.
"""

import re
from collections.abc import Mapping

from controlplane.apiserver.wire.info import RequestInfo

_Where = tuple[str, str, str, str]
_OF_A_NODE = re.compile(r"(^|,)spec\.nodeName==?[^=,]")


class WatchCounts:
    def __init__(self) -> None:
        self._counts: dict[_Where, int] = {}

    def opened(self, info: RequestInfo, query: Mapping[str, str]) -> _Where | None:
        """What to give to :meth:`closed` later; None for one that is not counted."""
        if info.resource == "pods" and not info.api_group and _OF_A_NODE.search(query.get("fieldSelector", "")):
            return None
        where = (info.api_group, info.resource, info.namespace, info.name)
        self._counts[where] = self._counts.get(where, 0) + 1
        return where

    def closed(self, where: _Where) -> None:
        left = self._counts[where] - 1
        if left:
            self._counts[where] = left
        else:
            del self._counts[where]

    def interested(self, info: RequestInfo) -> int:
        counts = self._counts
        if not counts:
            return 0
        group, resource = info.api_group, info.resource
        found = counts.get((group, resource, "", ""), 0)
        if info.namespace:
            found += counts.get((group, resource, info.namespace, ""), 0)
        if info.name:
            found += counts.get((group, resource, info.namespace, info.name), 0)
        return found
