"""What metrics say now: ``metrics.k8s.io``, ``custom.metrics.k8s.io`` and ``external.metrics.k8s.io``, whoever serves them.

``evaluation`` asks, for each metric anew. A malformed answer of an extension server is a failure like any other.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar
from urllib.parse import quote

import orjson

from apimachinery import quantity
from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersion, GroupVersionResource
from apimachinery.labels import EVERYTHING, Selector, from_label_selector
from apimachinery.meta import Object
from apimachinery.times import parse_time
from client.rest import Client
from component.clock import Clock
from component.flags import parse_duration
from controlplane.controllers.horizontalpodautoscaler.mapping import Mapper, NoMatchError
from controlplane.controllers.horizontalpodautoscaler.pods import Sample

_POD_METRICS = GroupVersionResource("metrics.k8s.io", "v1beta1", "pods")
_CUSTOM = "custom.metrics.k8s.io"
_CUSTOM_VERSIONS = ("v1beta2", "v1beta1")
_DEFAULT_WINDOW = timedelta(minutes=1)

Samples = dict[str, Sample]
Value = TypeVar("Value")


class FiguresError(Exception):
    """A metric cannot be had; the text says why."""


class Figures:
    """Every method raises FiguresError. ``keep`` is for how many seconds the version of the custom metrics API is believed."""

    def __init__(self, client: Client, mapper: Mapper, clock: Clock, keep: float) -> None:
        self._client, self._mapper, self._clock, self._keep = client, mapper, clock, keep
        self._version: tuple[float, str] = (0.0, "")

    async def resource(self, name: str, namespace: str, selector: Selector, container: str = "") -> Samples:
        """Pod to its use of a resource; pods of which a container has no figure are left out."""

        async def ask() -> list[Object]:
            items: list[Object] = (await self._client.list(_POD_METRICS, namespace, label_selector=str(selector)))["items"]
            return items

        items = await _asked("resource", ask)
        return _read("resource", lambda: _resource_samples(items, name, container))

    async def of_pods(self, metric: Object, namespace: str, selector: Selector) -> Samples:
        """Pod to its figure of a custom metric."""
        items = await self._custom(metric, f"/namespaces/{namespace}/pods/*", labelSelector=str(selector))
        return _read("custom", lambda: {each["describedObject"]["name"]: _sample(each) for each in items})

    async def of_object(self, metric: Object, namespace: str, described: Object) -> int:
        """One object's figure, in thousandths."""
        group = _read("custom", lambda: GroupVersion.parse(described.get("apiVersion") or "").group)
        if (group, described["kind"]) == ("", "Namespace"):
            where = f"/namespaces/{namespace}/metrics"  # its own namespace, whatever name the reference gives
        else:
            try:
                mapping = (await self._mapper.mappings(group, described["kind"]))[0]
            except (NoMatchError, StatusError, ConnectionError) as error:
                raise FiguresError(_unable("custom", error)) from error
            where = f"/namespaces/{namespace}/{mapping.resource.group_resource}/{quote(described['name'])}"
        items = await self._custom(metric, where)
        if len(items) != 1:
            text = f"the custom metrics API server returned {len(items)} results when we asked for exactly one"
            raise FiguresError(_unable("custom", text))
        return _read("custom", lambda: quantity.parse(items[0]["value"]).milli())

    async def external(self, metric: Object, namespace: str) -> list[int]:
        """The figures of all series that the metric's selector matches."""
        path = f"/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/{quote(metric['name'])}"
        items = await _asked("external", lambda: self._items(path, labelSelector=str(selector_of(metric))))
        return _read("external", lambda: [quantity.parse(each["value"]).milli() for each in items])

    async def _custom(self, metric: Object, where: str, **query: str) -> list[Object]:
        async def ask() -> list[Object]:
            path = f"/apis/{_CUSTOM}/{await self._custom_version()}{where}/{quote(metric['name'])}"
            return await self._items(path, **query, metricLabelSelector=str(selector_of(metric)))

        return await _asked("custom", ask)

    async def _custom_version(self) -> str:
        until, version = self._version
        if until > self._clock.monotonic():
            return version
        served = await self._mapper.versions(_CUSTOM)
        if not served:
            raise FiguresError(f"no custom metrics API ({_CUSTOM}) registered")
        known = next((each for each in served if each in _CUSTOM_VERSIONS), None)
        if known is None:
            raise FiguresError("no known available metric versions found")
        self._version = (self._clock.monotonic() + self._keep, known)
        return known

    async def _items(self, path: str, **query: str) -> list[Object]:
        given = {name: value for name, value in query.items() if value}
        answer = orjson.loads(await self._client.raw("GET", path, query=given, headers={"Accept": "application/json"}))
        items: list[Object] = answer["items"]
        return items


def selector_of(metric: Object) -> Selector:
    """Which series of the metric; all without one. Raises ValueError."""
    return from_label_selector(metric["selector"]) if metric.get("selector") is not None else EVERYTHING


async def _asked(api: str, ask: Callable[[], Awaitable[list[Object]]]) -> list[Object]:
    try:
        items = await ask()
    except (StatusError, ConnectionError, TimeoutError, FiguresError) as error:
        raise FiguresError(_unable(api, error)) from error
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise FiguresError(_unable(api, "its answer cannot be read")) from error
    if not items:
        raise FiguresError(f"no metrics returned from {api} metrics API")
    return items


def _read(api: str, read: Callable[[], Value]) -> Value:
    try:
        return read()
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise FiguresError(_unable(api, f"its answer cannot be read: {error}")) from error


def _unable(api: str, why: object) -> str:
    return f"unable to fetch metrics from {api} metrics API: {why}"


def _resource_samples(items: Sequence[Object], resource: str, container: str) -> Samples:
    found: Samples = {}
    for item in items:
        listed = [each for each in item.get("containers") or () if not container or each["name"] == container]
        used = [each["usage"][resource] for each in listed if resource in (each.get("usage") or {})]
        if listed and len(used) == len(listed):
            value = sum(quantity.parse(amount).milli() for amount in used)
            window = timedelta(seconds=parse_duration(item["window"]))
            found[item["metadata"]["name"]] = Sample(value, parse_time(item["timestamp"]), window)
    return found


def _sample(item: dict[str, Any]) -> Sample:
    seconds = item.get("windowSeconds")
    window = _DEFAULT_WINDOW if seconds is None else timedelta(seconds=seconds)
    return Sample(quantity.parse(item["value"]).milli(), parse_time(item["timestamp"]), window)
