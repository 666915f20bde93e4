"""The controller: each autoscaler once in a sync period, by upstream's ``reconcileAutoscaler``.

Changes of an autoscaler do not hurry it: it is looked at when its period is over, and failures wait for the next period.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from apimachinery import labels, quantity
from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersionResource
from apimachinery.labels import Selector
from apimachinery.meta import Object, clone, key_of, name_of, namespace_of, set_condition, split_key
from apimachinery.resources import HORIZONTAL_POD_AUTOSCALERS, PODS
from apimachinery.times import format_time
from component import logs
from controlplane.controllers.controller import Environment, Loop
from controlplane.controllers.horizontalpodautoscaler import monitor
from controlplane.controllers.horizontalpodautoscaler.behavior import Bounds, History, normalized
from controlplane.controllers.horizontalpodautoscaler.calculator import Tolerances
from controlplane.controllers.horizontalpodautoscaler.evaluation import Evaluated, Evaluation, MetricError, Target
from controlplane.controllers.horizontalpodautoscaler.figures import Figures
from controlplane.controllers.horizontalpodautoscaler.mapping import Mapper, NoMatchError
from controlplane.controllers.horizontalpodautoscaler.pods import Patience
from controlplane.controllers.horizontalpodautoscaler.scale import InvalidReferenceError, Scales, UnscalableError
from controlplane.controllers.horizontalpodautoscaler.selectors import Selectors
from controlplane.controllers.lib.replicas import same_status

ABLE, ACTIVE, LIMITED = "AbleToScale", "ScalingActive", "ScalingLimited"
_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Settings:
    """The flags ``--horizontal-pod-autoscaler-*``, times in seconds. ``own_tolerance`` and ``pod_level`` are the gates
    HPAConfigurableTolerance and PodLevelResources."""

    sync_period: float = 15.0
    downscale_stabilization: float = 300.0
    tolerance: float = 0.1
    cpu_initialization_period: float = 300.0
    initial_readiness_delay: float = 30.0
    own_tolerance: bool = True
    pod_level: bool = True


def tolerances_of(autoscaler: Mapping[str, Any], settings: Settings) -> Tolerances:
    """The autoscaler's own where it has some, else the flag's."""
    behavior = autoscaler["spec"].get("behavior")

    def own(direction: str) -> float:
        amount = ((behavior or {}).get(direction) or {}).get("tolerance") if settings.own_tolerance else None
        return settings.tolerance if amount is None else quantity.parse(amount).nanos / 10**9

    return Tolerances(own("scaleDown"), own("scaleUp"))


class RoundError(Exception):
    """A round that failed: ``label`` is its error in the metrics."""

    def __init__(self, text: str, label: str = monitor.INTERNAL) -> None:
        super().__init__(text)
        self.label = label


@dataclass(slots=True)
class _Round:
    """One look at one autoscaler. ``autoscaler`` is a copy whose status is edited as the look goes on."""

    key: str
    cached: Object
    autoscaler: Object
    history: History
    current: int = 0
    statuses: list[Object] | None = None
    action: str = monitor.NONE
    failure: RoundError | None = None
    """What some metrics lacked, though the others were enough to go on."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Wish:
    """The greatest size that a metric wants; ``failure`` if others said nothing."""

    replicas: int
    name: str
    statuses: list[Object] = field(repr=False)
    failure: RoundError | None = None


class HorizontalPodAutoscalerController:
    """One loop over autoscalers, which fills itself again."""

    name = "horizontal-pod-autoscaler-controller"

    def __init__(self, env: Environment, settings: Settings, workers: int = 5) -> None:
        self._client, self._clock, self._settings = env.client, env.clock, settings
        self._recorder = env.recorders("horizontal-pod-autoscaler")
        self._autoscalers, self._pods = env.watch(HORIZONTAL_POD_AUTOSCALERS), env.watch(PODS)
        mapper = Mapper(env.client, env.clock)
        self._scales = Scales(env.client, mapper)
        figures = Figures(env.client, mapper, env.clock, settings.sync_period)
        patience = Patience(
            timedelta(seconds=settings.cpu_initialization_period), timedelta(seconds=settings.initial_readiness_delay)
        )
        self._evaluation = Evaluation(figures, patience, env.clock, pod_level=settings.pod_level)
        self._histories: dict[str, History] = {}
        self._selectors = Selectors()
        self._monitor = monitor.Monitor(env.metrics)
        self._loop = Loop(self.name, self.reconcile, env, workers)
        self._autoscalers.add_handler(
            on_add=self._added, on_update=lambda old, new: self._after_period(key_of(new)), on_delete=self._deleted
        )

    async def run(self) -> None:
        await self._loop.run()

    def _after_period(self, key: str) -> None:
        self._loop.add_after(key, self._settings.sync_period)

    def _added(self, autoscaler: Object) -> None:
        self._monitor.appeared()
        self._after_period(key_of(autoscaler))

    def _deleted(self, autoscaler: Object) -> None:
        self._monitor.vanished(namespace_of(autoscaler), name_of(autoscaler))
        self._loop.add(key_of(autoscaler))

    async def reconcile(self, key: str) -> float | None:
        namespace, name = split_key(key)
        cached = self._autoscalers.lister.get(name, namespace)
        if cached is None:
            self._histories.pop(key, None)
            self._selectors.drop(key)
            return None
        look = _Round(key, cached, clone(cached), self._histories.setdefault(key, History()))
        begin, label = self._clock.monotonic(), monitor.NONE
        try:
            await self._look(look)
        except RoundError as error:
            label = error.label
            _log.v(1, "Autoscaling failed, it will be tried again", key=key, err=error)
        except ConnectionError as error:
            label = monitor.INTERNAL
            _log.v(1, "Autoscaling has to wait", key=key, err=error)
        finally:
            self._monitor.reconciled(look.action, label, self._clock.monotonic() - begin)
        return self._settings.sync_period

    async def _look(self, look: _Round) -> None:
        """Raises RoundError when all that could be done is done."""
        spec = look.autoscaler["spec"]
        resource, scale = await self._scale(look)
        look.current = int((scale.get("spec") or {}).get("replicas") or 0)
        look.history.begin(look.current, self._clock.monotonic())
        least = 1 if spec.get("minReplicas") is None else int(spec["minReplicas"])
        if look.current == 0 and least != 0:
            text = "scaling is disabled since the replica count of the target is zero"
            self._condition(look, ACTIVE, "False", "ScalingDisabled", text)
            desired = 0
        elif look.current > spec["maxReplicas"]:
            look.reason, desired = "Current number of replicas above Spec.MaxReplicas", int(spec["maxReplicas"])
        elif look.current < least:
            look.reason, desired = "Current number of replicas below Spec.MinReplicas", least
        else:
            desired = await self._desired(look, scale, least)
        if desired != look.current:
            await self._rescale(look, resource, scale, desired)
        self._set_status(look, desired, rescaled=desired != look.current)
        await self._write_status(look)
        if look.failure is not None:
            raise look.failure

    async def _scale(self, look: _Round) -> tuple[GroupVersionResource, Object]:
        reference = look.autoscaler["spec"]["scaleTargetRef"]
        try:
            found = await self._scales.get(namespace_of(look.cached), reference)
        except (StatusError, ConnectionError, ValueError) as error:
            self._event(look, "Warning", "FailedGetScale", str(error))
            text = f"the HPA controller was unable to get the target's current scale: {error}"
            self._condition(look, ABLE, "False", "FailedGetScale", text)
            await self._try_to_write_status(look)
            if isinstance(error, InvalidReferenceError):
                text = f"invalid API version in scale target reference: {error}"
                raise RoundError(text, monitor.SPEC) from error
            if isinstance(error, NoMatchError):
                raise RoundError(f"unable to determine resource for scale target reference: {error}") from error
            if isinstance(error, StatusError | ConnectionError | UnscalableError):
                raise RoundError(f"failed to query scale subresource for {_shown(look)}: {error}") from error
            raise
        self._condition(look, ABLE, "True", "SucceededGetScale", "the HPA controller was able to get the target's current scale")
        return found

    async def _desired(self, look: _Round, scale: Object, least: int) -> int:
        """What the metrics want, held back as the behaviour says."""
        spec = look.autoscaler["spec"]
        try:
            wish = await self._wish(look, scale)
        except RoundError as error:
            self._set_status(look, None, rescaled=False)
            await self._try_to_write_status(look)
            self._event(look, "Warning", "FailedComputeMetricsReplicas", str(error))
            text = f"failed to compute desired number of replicas based on listed metrics for {_shown(look)}: {error}"
            raise RoundError(text, error.label) from error
        look.statuses, look.failure = wish.statuses, wish.failure
        desired = max(wish.replicas, 0)
        if desired > look.current:
            look.reason = f"{wish.name} above target"
        elif desired < look.current:
            look.reason = "All metrics below target"
        bounds = Bounds(least, int(spec["maxReplicas"]), self._settings.downscale_stabilization)
        found = normalized(spec.get("behavior"), bounds, look.history, look.current, desired, self._clock.monotonic())
        self._condition(look, ABLE, "True", *found.able)
        self._condition(look, LIMITED, str(found.limited), *found.limit)
        return found.replicas

    async def _wish(self, look: _Round, scale: Object) -> _Wish:
        """The greatest of the metrics' wishes. Raises RoundError, with the condition set, if there is none to go by."""
        target = self._target(look, scale)
        metrics = look.autoscaler["spec"].get("metrics") or ()
        tolerances = tolerances_of(look.autoscaler, self._settings)
        statuses: list[Object] = [{"type": ""} for _ in metrics]
        best: Evaluated | None = None
        failures: list[MetricError] = []
        for position, metric in enumerate(metrics):
            found = await self._evaluated(look, metric, target, tolerances)
            if isinstance(found, MetricError):
                failures.append(found)
                continue
            statuses[position] = found.status
            if best is None or best.replicas == 0 or found.replicas > best.replicas:
                best = found
        failure = None
        if failures:
            first = f"first error is: {failures[0].summary}"
            label = monitor.SPEC if failures[0].by_spec else monitor.INTERNAL
            failure = RoundError(f"invalid metrics ({len(failures)} invalid out of {len(metrics)}), {first}", label)
            # what is not known might want more: never shrink on the word of the others
            if best is None or best.replicas < target.wanted:
                look.statuses = statuses
                text = f"the HPA was unable to compute the replica count: {failures[0]}"
                self._condition(look, ACTIVE, "False", failures[0].reason, text)
                raise failure
        assert best is not None  # an autoscaler has a metric: the API server's default
        text = f"the HPA was able to successfully calculate a replica count from {best.name}"
        self._condition(look, ACTIVE, "True", "ValidMetricFound", text)
        return _Wish(best.replicas, best.name, statuses, failure)

    async def _evaluated(self, look: _Round, metric: Object, target: Target, tolerances: Tolerances) -> Evaluated | MetricError:
        begin, kind = self._clock.monotonic(), str(metric.get("type") or "")
        status = look.cached.get("status") or {}
        found: Evaluated | MetricError
        try:
            found = await self._evaluation.of(metric, target, tolerances)
        except MetricError as error:
            self._event(look, "Warning", error.reason, str(error))
            action, label = monitor.NONE, monitor.SPEC if error.by_spec else monitor.INTERNAL
            found = error
        else:
            action, label = monitor.compared(found.replicas, int(status.get("currentReplicas") or 0)), monitor.NONE
        self._monitor.computed(action, label, kind, self._clock.monotonic() - begin)
        return found

    def _target(self, look: _Round, scale: Object) -> Target:
        """Raises RoundError for a selector that does not say which pods are this autoscaler's alone."""
        status = scale.get("status") or {}
        namespace, text = namespace_of(look.cached), str(status.get("selector") or "")
        if not text:
            missing = "the HPA target's scale is missing a selector"
            self._event(look, "Warning", "SelectorRequired", "selector is required")
            self._condition(look, ACTIVE, "False", "InvalidSelector", missing)
            raise RoundError("selector is required")
        try:
            selector = labels.parse(text)
        except ValueError as error:
            wrong = f"couldn't convert selector into a corresponding internal selector object: {error}"
            raise self._refused(look, "InvalidSelector", wrong) from error
        pods = self._pods.lister.list(namespace, selector)
        self._check_alone(look, text, selector, pods)
        return Target(namespace, look.current, int(status.get("replicas") or 0), selector, pods)

    def _check_alone(self, look: _Round, text: str, selector: Selector, pods: Sequence[Object]) -> None:
        namespace = namespace_of(look.cached)
        self._selectors.put(look.key, selector)
        rivals = self._selectors.selecting(namespace, pods)
        if len(rivals) > 1:
            listed = " ".join(f"{{{split_key(rival)[1]} {namespace}}}" for rival in rivals)
            wrong = f"pods by selector {text} are controlled by multiple HPAs: [{listed}]"
            raise self._refused(look, "AmbiguousSelector", wrong)

    def _refused(self, look: _Round, reason: str, text: str) -> RoundError:
        self._event(look, "Warning", reason, text)
        self._condition(look, ACTIVE, "False", reason, text)
        return RoundError(text)

    async def _rescale(self, look: _Round, resource: GroupVersionResource, scale: Object, desired: int) -> None:
        said = f"New size: {desired}; reason: {look.reason}"
        try:
            await self._scales.set(resource, scale, desired)
        except (StatusError, ConnectionError) as error:
            self._event(look, "Warning", "FailedRescale", f"{said}; error: {error}")
            text = f"the HPA controller was unable to update the target scale: {error}"
            self._condition(look, ABLE, "False", "FailedUpdateScale", text)
            self._set_status(look, None, rescaled=False)
            await self._try_to_write_status(look)
            raise RoundError(f"failed to rescale {_shown(look)}: {error}") from error
        text = f"the HPA controller was able to update the target scale to {desired}"
        self._condition(look, ABLE, "True", "SucceededRescale", text)
        self._event(look, "Normal", "SuccessfulRescale", said)
        behavior = look.autoscaler["spec"].get("behavior")
        look.history.note_change(behavior, look.current, desired, self._clock.monotonic())
        look.action = monitor.compared(desired, look.current)
        _log.info("Rescaled", key=look.key, before=look.current, after=desired, reason=look.reason)

    def _condition(self, look: _Round, kind: str, status: str, reason: str, message: str) -> None:
        set_condition(look.autoscaler, kind, status, now=self._clock.now(), reason=reason, message=message)

    def _event(self, look: _Round, kind: str, reason: str, note: str) -> None:
        self._recorder.event(look.autoscaler, kind, reason, note)

    def _set_status(self, look: _Round, desired: int | None, *, rescaled: bool) -> None:
        """The status made anew; ``desired`` None leaves that number as it was."""
        before = look.autoscaler.get("status") or {}
        status: Object = {
            "desiredReplicas": int(before.get("desiredReplicas") or 0) if desired is None else desired,
            "currentMetrics": look.statuses,
            "conditions": before.get("conditions") or [],
        }
        if look.current:
            status["currentReplicas"] = look.current
        last = format_time(self._clock.now()) if rescaled else before.get("lastScaleTime")
        if last:
            status["lastScaleTime"] = last
        look.autoscaler["status"] = status
        namespace, name = namespace_of(look.cached), name_of(look.cached)
        if self._autoscalers.lister.get(name, namespace) is not None:
            self._monitor.desired(namespace, name, status["desiredReplicas"])

    async def _write_status(self, look: _Round) -> None:
        """Raises RoundError."""
        if same_status(look.cached.get("status"), look.autoscaler.get("status") or {}):
            return
        try:
            await self._client.update_status(HORIZONTAL_POD_AUTOSCALERS, look.autoscaler)
        except StatusError as error:
            self._event(look, "Warning", "FailedUpdateStatus", str(error))
            raise RoundError(f"failed to update status for {name_of(look.cached)}: {error}") from error

    async def _try_to_write_status(self, look: _Round) -> None:
        """Where something worse has happened already."""
        try:
            await self._write_status(look)
        except RoundError as error:
            _log.v(1, "Status not written", key=look.key, err=error)


def _shown(look: _Round) -> str:
    reference = look.autoscaler["spec"]["scaleTargetRef"]
    return f"{reference['kind']}/{namespace_of(look.cached)}/{reference['name']}"
