"""How full the volumes of pods are: looked at once a minute, shown by ``/stats/summary`` and ``/metrics``.

``kubelet.py`` runs :class:`VolumeUsage`; the volumes themselves say how they are measured (``volumes.manager``).
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from apimachinery.meta import uid_of
from apimachinery.times import format_time
from component import logs
from component.clock import Clock
from node.kubelet.interface import Pod, VolumeStats

_log = logs.get(__name__)
_SERIES: Sequence[tuple[str, str, Callable[[VolumeStats], int | None]]] = (
    ("capacity_bytes", "Capacity in bytes of the volume", lambda each: each.capacity),
    ("available_bytes", "Number of available bytes in the volume", lambda each: each.available),
    ("used_bytes", "Number of used bytes in the volume", lambda each: each.used),
    ("inodes", "Maximum number of inodes in the volume", lambda each: each.inodes),
    ("inodes_free", "Number of free inodes in the volume", lambda each: each.inodes_free),
    ("inodes_used", "Number of used inodes in the volume", lambda each: each.inodes_used),
)


class VolumeUsage:
    """``measure`` answers for one pod."""

    def __init__(
        self,
        pods: Callable[[], Sequence[Pod]],
        measure: Callable[[Pod], Awaitable[Sequence[VolumeStats]]],
        clock: Clock,
        period: float = 60.0,
    ) -> None:
        self._pods, self._measure, self._clock, self._period = pods, measure, clock, period
        self._held: dict[str, tuple[datetime, Sequence[VolumeStats]]] = {}

    async def run(self) -> None:
        """Upstream's ``volumeStatsAggPeriod`` apart; none at all if that is not positive."""
        while self._period > 0:
            await self.look()
            await self._clock.sleep(self._period)

    async def look(self) -> None:
        """One pass over all pods; a volume that cannot be measured leaves out its pod until the next."""
        found = {}
        for pod in self._pods():
            try:
                found[uid_of(pod)] = (self._clock.now(), await self._measure(pod))
            except Exception as error:
                _log.v(2, "Volumes of a pod cannot be measured", pod=uid_of(pod), err=error)
        self._held = found

    def of_pod(self, uid: str) -> list[dict[str, Any]]:
        """The ``volume`` list of a pod in ``stats/v1alpha1``."""
        when, listed = self._held.get(uid, (None, ()))
        return [shown(each, when) for each in listed if when is not None]

    def metrics(self) -> bytes:
        return volume_metrics([each for _, listed in self._held.values() for each in listed])


def shown(stats: VolumeStats, when: datetime) -> dict[str, Any]:
    """One volume in ``stats/v1alpha1``. Pure."""
    entry: dict[str, Any] = {
        "time": format_time(when),
        "availableBytes": stats.available,
        "capacityBytes": stats.capacity,
        "usedBytes": stats.used,
        "inodesFree": stats.inodes_free,
        "inodes": stats.inodes,
        "inodesUsed": stats.inodes_used,
        "name": stats.name,
    }
    if stats.claim is not None:
        entry["pvcRef"] = {"name": stats.claim[1], "namespace": stats.claim[0]}
    if stats.abnormal is not None:
        entry["volumeHealthStats"] = {"abnormal": stats.abnormal}
    return {key: value for key, value in entry.items() if value is not None}


def volume_metrics(listed: Sequence[VolumeStats]) -> bytes:
    """Upstream's ``kubelet_volume_stats_*``, of volumes behind claims; one that several pods use counts once. Pure."""
    claims: Mapping[tuple[str, str], VolumeStats] = {each.claim: each for each in listed if each.claim is not None}
    lines = []
    for name, text, read in _SERIES:
        values = [(claim, read(each)) for claim, each in sorted(claims.items())]
        if any(value is not None for _, value in values):
            lines += [f"# HELP kubelet_volume_stats_{name} {text}", f"# TYPE kubelet_volume_stats_{name} gauge"]
        for (namespace, claim), value in values:
            if value is not None:
                labels = f'namespace="{namespace}",persistentvolumeclaim="{claim}"'
                lines.append(f"kubelet_volume_stats_{name}{{{labels}}} {value}")
    return ("\n".join(lines) + "\n").encode() if lines else b""
