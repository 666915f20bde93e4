"""API priority and fairness, running: levels and schemas as they are now, and everything that goes through them.

Made by ``assembly.flow_control``, which tells it of changed objects and lets it adjust the levels every ten seconds. The filter
asks it for a request's flow, and starts and ends requests in the flow's level.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from component import logs
from component.clock import Clock
from controlplane.apiserver.authentication.interface import UserInfo
from controlplane.apiserver.flowcontrol import borrowing
from controlplane.apiserver.flowcontrol.classification import classify, distinguisher
from controlplane.apiserver.flowcontrol.configuration import LevelSpec, levels_from, limits_of, schemas_from
from controlplane.apiserver.flowcontrol.demand import observe
from controlplane.apiserver.flowcontrol.flow import Flow, FlowStats, Level
from controlplane.apiserver.flowcontrol.shuffle import deal, flow_hash
from controlplane.apiserver.flowcontrol.utilization import Utilization
from controlplane.apiserver.flowcontrol.watches import WatchCounts
from controlplane.apiserver.wire.info import RequestInfo

_log = logs.get(__name__)


class FlowControl:
    """``seats`` is how many requests of one seat may run at once, exempt ones apart."""

    def __init__(self, seats: int, clock: Clock) -> None:
        self._seats, self._clock = seats, clock
        self.levels: dict[str, Level] = {}
        self.stats: dict[tuple[str, str], FlowStats] = {}  # by level and schema
        self.utilization: dict[str, Utilization] = {}  # by level
        self.watches = WatchCounts()
        self.fair = 0.0
        self.generation = 0  # grows whenever a request might be classified in another way
        self.configure((), ())

    def now(self) -> float:
        return self._clock.monotonic()

    def configure(self, levels: Iterable[Mapping[str, Any]], schemas: Iterable[Mapping[str, Any]]) -> None:
        """Follow the objects. Whoever waits or runs in a level that they no longer name ends there in peace."""
        wanted = levels_from(levels)
        self._schemas = schemas_from(schemas, wanted)
        lingering = {name: level.spec for name, level in self.levels.items() if name not in wanted and not level.queues.idle}
        specs: dict[str, LevelSpec] = {**wanted, **lingering}
        limits, now = limits_of(specs, self._seats), self.now()
        for name in self.levels.keys() - specs.keys():
            self._forget(name)
        for name, spec in specs.items():
            level = self.levels.get(name)
            if level is None:
                level = self.levels[name] = Level(spec, limits[name], now)
                self._measure(level)
            level.adopt(spec, limits[name])
            level.quiescing = name in lingering
        self.generation += 1
        self.adjust()

    def adjust(self) -> None:
        """Give each level the seats that it may use until the next time."""
        now = self.now()
        if any(level.quiescing and level.queues.idle for level in self.levels.values()):
            self._drop_idle()
        states: dict[str, borrowing.State] = {}
        for name, level in self.levels.items():
            measured = self.utilization[name]
            measured.fold(now)
            level.demand.update(observe(measured.period(), level.queues.take_peak()))
            states[name] = borrowing.State(level.spec.exempt, level.limits, level.demand, level.current)
        adjusted = borrowing.adjust(states)
        self.fair = adjusted.fair
        for name, level in self.levels.items():
            before, level.current = level.current, adjusted.current[name]
            level.target = adjusted.targets.get(name, float(level.current))
            if abs(level.current - before) > 0.05 * max(level.current, before):
                _log.v(2, "Seats of a priority level", level=name, seats=level.current, before=before, peak=level.demand.peak)
            level.queues.configure(level.spec.shape, level.current, now)

    def flow(self, user: UserInfo, info: RequestInfo) -> Flow:
        """Where a request belongs. Costs tens of microseconds: the filter remembers it for the connection."""
        schema = classify(self._schemas, user, info)
        level = self.levels[schema.level]
        what = ""
        hand: tuple[int, ...] = (0,)
        shape = level.spec.shape
        if shape.queues > 0:
            what = distinguisher(schema, user, info)
            hand = deal(flow_hash(schema.name, what), shape.queues, min(shape.hand, shape.queues))
        key = (level.spec.name, schema.name)
        stats = self.stats.get(key)
        if stats is None:
            stats = self.stats[key] = FlowStats()
        headers = b"X-Kubernetes-Pf-Flowschema-Uid: %b\r\nX-Kubernetes-Pf-Prioritylevel-Uid: %b\r\n"
        return Flow(schema, level, what, hand, headers % (schema.uid.encode(), level.spec.uid.encode()), stats)

    def _measure(self, level: Level) -> None:
        name, queues = level.spec.name, level.queues
        measured = self.utilization[name] = Utilization(level, self._seats)
        queues.on_full = lambda: measured.fold(self.now())
        queues.on_held = lambda: self._clock.call_later(0, lambda: queues.turn(self.now()))

    def _drop_idle(self) -> None:
        for name in [name for name, level in self.levels.items() if level.quiescing and level.queues.idle]:
            self._forget(name)
        limits = limits_of({name: level.spec for name, level in self.levels.items()}, self._seats)
        for name, level in self.levels.items():
            quiescing = level.quiescing
            level.adopt(level.spec, limits[name])
            level.quiescing = quiescing

    def _forget(self, name: str) -> None:
        del self.levels[name], self.utilization[name]
        for key in [key for key in self.stats if key[0] == name]:
            del self.stats[key]
