"""One metric of an autoscaler: what it says now, the size it wants, and how the status shows it.

``controller`` calls :meth:`Evaluation.of` for each of ``spec.metrics``. Figures and pods come in, ``calculator`` computes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from apimachinery import quantity
from apimachinery.labels import Selector
from apimachinery.meta import Object
from apimachinery.objects import pods as pod_facts
from component.clock import Clock
from controlplane.controllers.horizontalpodautoscaler import calculator, pods
from controlplane.controllers.horizontalpodautoscaler.calculator import Proposal, Tolerances
from controlplane.controllers.horizontalpodautoscaler.figures import Figures, FiguresError, Samples, selector_of
from controlplane.controllers.horizontalpodautoscaler.pods import Patience

REASONS = {
    "Object": "FailedGetObjectMetric",
    "Pods": "FailedGetPodsMetric",
    "Resource": "FailedGetResourceMetric",
    "ContainerResource": "FailedGetContainerResourceMetric",
    "External": "FailedGetExternalMetric",
}


@dataclass(frozen=True, slots=True)
class Target:
    """What is scaled, as its scale says: wanted and present replicas, and the pods behind ``selector``."""

    namespace: str
    wanted: int
    present: int
    selector: Selector
    pods: Sequence[Object] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Evaluated:
    """``name`` is how events call the metric; ``status`` is its entry in ``status.currentMetrics``."""

    replicas: int
    name: str
    status: Object


class MetricError(Exception):
    """A metric that says nothing. ``reason`` and the text go into the condition ScalingActive and an event; ``summary`` into the
    error of the whole. ``by_spec``: the autoscaler itself is at fault."""

    def __init__(self, reason: str, text: str, summary: str, *, by_spec: bool = False) -> None:
        super().__init__(text)
        self.reason, self.summary, self.by_spec = reason, summary, by_spec


class Evaluation:
    """``pod_level``: whether requests of whole pods count (gate PodLevelResources)."""

    def __init__(self, figures: Figures, patience: Patience, clock: Clock, *, pod_level: bool = True) -> None:
        self._figures, self._patience, self._clock, self._pod_level = figures, patience, clock, pod_level

    async def of(self, metric: Object, target: Target, tolerances: Tolerances) -> Evaluated:
        """Raises MetricError."""
        kind = metric.get("type") or ""
        if kind not in REASONS:
            text = f'unknown metric source type "{kind}"'
            raise MetricError("InvalidMetricSourceType", text, text, by_spec=True)
        try:
            return await self._of(kind, metric, target, tolerances)
        except (FiguresError, ValueError) as error:
            raise MetricError(REASONS[kind], str(error), _summary(kind, metric, str(error))) from error

    async def _of(self, kind: str, metric: Object, target: Target, tolerances: Tolerances) -> Evaluated:
        if kind == "Object":
            return await self._object(metric["object"], target, tolerances)
        if kind == "External":
            return await self._external(metric["external"], target, tolerances)
        if kind == "Pods":
            return await self._pods(metric["pods"], target, tolerances)
        field_name = "resource" if kind == "Resource" else "containerResource"
        return await self._resource(kind, field_name, metric[field_name], target, tolerances)

    async def _resource(self, kind: str, field_name: str, source: Object, target: Target, tolerances: Tolerances) -> Evaluated:
        name, container, aim = source["name"], source.get("container") or "", source.get("target") or {}
        if aim.get("averageValue") is not None:
            what, shown = "usage", f"{name} resource"
        elif aim.get("averageUtilization") is not None:
            what = "utilization"
            shown = f"{name} {'container ' if container else ''}resource utilization (percentage of request)"
        else:
            neither = "neither an average utilization target nor an average value (usage) target was set"
            raise ValueError(f"invalid resource metric source: {neither}")
        try:
            proposal = await self._of_resource(name, container, aim, target, tolerances)
        except FiguresError as error:
            text = f"failed to get {name} {what}: unable to get metrics for resource {name}: {error}"
            raise ValueError(text) from error
        except ValueError as error:
            raise ValueError(f"failed to get {name} {what}: {error}") from error
        current = _current(averageUtilization=proposal.utilization, averageValue=_amount(proposal.value))
        status = {"name": name, **({"container": container} if kind == "ContainerResource" else {}), "current": current}
        return Evaluated(proposal.replicas, shown, {"type": kind, field_name: status})

    async def _of_resource(self, name: str, container: str, aim: Object, target: Target, tolerances: Tolerances) -> Proposal:
        samples = await self._figures.resource(name, target.namespace, target.selector, container)
        if not target.pods:
            raise ValueError(calculator.NO_PODS)
        groups = pods.grouped(target.pods, samples, name, self._patience, self._clock.now())
        values = _values(samples)
        if aim.get("averageValue") is not None:
            return calculator.average(target.wanted, groups, values, _milli(aim["averageValue"]), tolerances)
        if not values.keys() - groups.ignored - groups.unready:
            raise ValueError(calculator.NO_FIGURES)
        asked = pods.requests(target.pods, name, container, pod_level=self._pod_level)
        return calculator.utilization(target.wanted, groups, values, asked, int(aim["averageUtilization"]), tolerances)

    async def _pods(self, source: Object, target: Target, tolerances: Tolerances) -> Evaluated:
        metric = source["metric"]
        selector_of(metric)
        try:
            samples = await self._figures.of_pods(metric, target.namespace, target.selector)
        except FiguresError as error:
            raise ValueError(f"unable to get metric {metric['name']}: {error}") from error
        if not target.pods:
            raise ValueError(calculator.NO_PODS)
        groups = pods.grouped(target.pods, samples, "", self._patience, self._clock.now())
        aim = _milli(source["target"]["averageValue"])
        proposal = calculator.average(target.wanted, groups, _values(samples), aim, tolerances)
        status = {"metric": metric, "current": _current(averageValue=_amount(proposal.value))}
        return Evaluated(proposal.replicas, f"pods metric {metric['name']}", {"type": "Pods", "pods": status})

    async def _object(self, source: Object, target: Target, tolerances: Tolerances) -> Evaluated:
        metric, described, aim = source["metric"], source["describedObject"], source.get("target") or {}
        selector_of(metric)
        whole = aim.get("type") == "Value" and aim.get("value") is not None
        if not whole and not (aim.get("type") == "AverageValue" and aim.get("averageValue") is not None):
            neither = "neither a value target nor an average value target was set"
            raise ValueError(f"invalid object metric source: {neither}")
        try:
            used = await self._figures.of_object(metric, target.namespace, described)
        except FiguresError as error:
            # the order of upstream's words
            where = f"{described['kind']} on {target.namespace} {described['name']}/{error}"
            text = f"unable to get metric {metric['name']}: {where}"
            raise ValueError(text if whole else f"failed to get {metric['name']} object metric: {text}") from error
        if whole:
            proposal = _total(target, used, _milli(aim["value"]), tolerances)
            status = {"describedObject": described, "metric": metric, "current": _current(value=_amount(proposal.value))}
            name = f"{described['kind']} metric {metric['name']}"
        else:
            proposal = calculator.shared(target.present, used, _milli(aim["averageValue"]), tolerances)
            status = {
                "describedObject": described,
                "metric": metric,
                "current": _current(averageValue=_amount(proposal.value)),
            }
            name = f"external metric {metric['name']}({shown_selector(metric.get('selector'))})"  # so upstream calls it
        return Evaluated(proposal.replicas, name, {"type": "Object", "object": status})

    async def _external(self, source: Object, target: Target, tolerances: Tolerances) -> Evaluated:
        metric, aim = source["metric"], source.get("target") or {}
        shown = shown_selector(metric.get("selector"))
        each = aim.get("averageValue") is not None
        if not each and aim.get("value") is None:
            neither = "neither a value target nor an average value target was set"
            raise ValueError(f"invalid external metric source: {neither}")
        failed = f"failed to get {metric['name']} external metric" if each else f"failed to get external metric {metric['name']}"
        try:
            used = calculator.summed(await self._figures.external(metric, target.namespace))
            if each:
                proposal = calculator.shared(target.present, used, _milli(aim["averageValue"]), tolerances)
            else:
                proposal = _total(target, used, _milli(aim["value"]), tolerances)
        except FiguresError as error:
            text = f"unable to get external metric {target.namespace}/{metric['name']}/{shown}: {error}"
            raise ValueError(f"{failed}: {text}") from error
        except ValueError as error:
            raise ValueError(f"{failed}: {error}") from error
        current = _current(**{"averageValue" if each else "value": _amount(proposal.value)})
        status = {"type": "External", "external": {"metric": metric, "current": current}}
        return Evaluated(proposal.replicas, f"external metric {metric['name']}({shown})", status)


def _total(target: Target, used: int, aim: int, tolerances: Tolerances) -> Proposal:
    def ready() -> int:
        if not target.pods:
            raise ValueError(f"unable to calculate ready pods: {calculator.NO_PODS}")
        return sum(pod_facts.phase(pod) == "Running" and pod_facts.is_ready(pod) for pod in target.pods)

    return calculator.total(target.wanted, ready, used, aim, tolerances)


def _values(samples: Samples) -> dict[str, int]:
    return {name: sample.value for name, sample in samples.items()}


def _milli(amount: Any) -> int:
    return quantity.parse(amount).milli()


def _amount(milli: int) -> str:
    return str(quantity.of_milli(milli))


def _current(**values: Any) -> Object:
    return {name: value for name, value in values.items() if value is not None}


def _summary(kind: str, metric: Object, text: str) -> str:
    if kind == "Resource":
        return f"failed to get {metric['resource']['name']} resource metric value: {text}"
    if kind == "ContainerResource":
        return f"failed to get {metric['containerResource']['container']} container metric value: {text}"
    if kind == "External":
        return f"failed to get {metric['external']['metric']['name']} external metric value: {text}"
    return f"failed to get {kind.lower()} metric value: {text}"


def shown_selector(selector: Object | None) -> str:
    """A label selector as Go prints it: events name series by it."""
    if selector is None:
        return "nil"
    labels = "".join(f"{key}: {value}," for key, value in sorted((selector.get("matchLabels") or {}).items()))
    demands = "".join(
        f"LabelSelectorRequirement{{Key:{each.get('key', '')},Operator:{each.get('operator', '')},"
        f"Values:[{' '.join(each.get('values') or ())}],}},"
        for each in selector.get("matchExpressions") or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{demands}}},}}"
    )
