"""LimitRanger: gives containers the requests and limits of a namespace's LimitRanges, and holds pods to their bounds."""

from collections.abc import Callable, Iterator
from typing import Any

from apimachinery.quantity import Quantity, parse
from controlplane.apiserver.admission.interface import CREATE, UPDATE, Attributes, Listing, Object, refuse

ANNOTATION = "kubernetes.io/limit-ranger"
_ZERO = parse("0")


class LimitRanger:
    name = "LimitRanger"

    def __init__(self, listing: Listing) -> None:
        self._listing = listing

    def handles(self, attributes: Attributes) -> bool:
        if attributes.obj is None:
            return False
        if attributes.subresource:  # the resources of a pod change by this door alone
            return (attributes.resource, attributes.subresource, attributes.operation) == ("pods", "resize", UPDATE)
        if attributes.resource == "pods":
            return attributes.operation == CREATE
        return attributes.resource == "persistentvolumeclaims" and attributes.operation in (CREATE, UPDATE)

    async def mutate(self, attributes: Attributes) -> None:
        if attributes.resource != "pods" or attributes.operation != CREATE:
            return
        assert attributes.obj is not None
        for item in await self._items(attributes, "Container"):
            set_defaults(attributes.obj, item)

    async def validate(self, attributes: Attributes) -> None:
        assert attributes.obj is not None
        found: list[str] = []
        if attributes.resource == "pods":
            for item in await self._items(attributes, "Container"):
                for container in _containers(attributes.obj):
                    found += violations(item, container.get("resources") or {}, "Container")
            for item in await self._items(attributes, "Pod"):
                found += violations(item, totals(attributes.obj), "Pod")
        else:
            resources = (attributes.obj.get("spec") or {}).get("resources") or {}
            for item in await self._items(attributes, "PersistentVolumeClaim"):
                found += violations({**item, "max": None}, resources, "PersistentVolumeClaim")
                found += _above(item, resources.get("requests") or {}, "PersistentVolumeClaim", "request")
        if found:
            raise refuse(attributes, found[0] if len(found) == 1 else f"[{', '.join(found)}]")

    async def _items(self, attributes: Attributes, kind: str) -> list[Object]:
        ranges = await self._listing("limitranges", attributes.namespace)
        return [item for one in ranges for item in (one.get("spec") or {}).get("limits") or [] if item.get("type") == kind]


def _containers(pod: Object) -> Iterator[Object]:
    spec = pod.get("spec") or {}
    yield from spec.get("containers") or []
    yield from spec.get("initContainers") or []


def set_defaults(pod: Object, item: Object) -> None:
    """Fill in what containers leave out, and note it in an annotation as upstream does."""
    notes = []
    spec = pod.get("spec") or {}
    for group, title in (("containers", "container"), ("initContainers", "init container")):
        for container in spec.get(group) or []:
            resources = container.get("resources") or {}
            requests = _missing(item.get("defaultRequest"), resources.get("requests"))
            limits = _missing(item.get("default"), resources.get("limits"))
            for part, values in (("requests", requests), ("limits", limits)):
                if values:
                    resources = {**resources, part: {**(resources.get(part) or {}), **values}}
                    word = part.removesuffix("s")
                    notes.append(f"{', '.join(sorted(values))} {word} for {title} {container.get('name', '')}")
            if requests or limits:
                container["resources"] = resources
    if notes:
        annotations = pod["metadata"].get("annotations") or {}
        pod["metadata"]["annotations"] = {**annotations, ANNOTATION: f"LimitRanger plugin set: {'; '.join(notes)}"}


def _missing(defaults: Any, held: Any) -> dict[str, Any]:
    return {name: value for name, value in (defaults or {}).items() if name not in (held or {})}


def totals(pod: Object) -> Object:
    """What a pod asks for as a whole: the sum of its containers, or its largest init container if that is more."""
    spec = pod.get("spec") or {}
    made: Object = {}
    for part in ("requests", "limits"):
        summed: dict[str, Quantity] = {}
        for container in spec.get("containers") or []:
            for name, value in ((container.get("resources") or {}).get(part) or {}).items():
                summed[name] = summed.get(name, _ZERO) + parse(value)
        for container in spec.get("initContainers") or []:
            for name, value in ((container.get("resources") or {}).get(part) or {}).items():
                amount = parse(value)
                if summed.get(name, _ZERO) < amount:
                    summed[name] = amount
        made[part] = {name: str(value) for name, value in summed.items()}
    return made


def violations(item: Object, resources: Object, kind: str) -> list[str]:
    """Every bound of one LimitRange item that the requests and limits break, in upstream's words."""
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    found: list[str] = []
    for name, bound in sorted((item.get("min") or {}).items()):
        sentence = f"minimum {name} usage per {kind} is {bound}"
        found += _bound(sentence, bound, requests.get(name), limits.get(name), "request", _less)
    for name, bound in sorted((item.get("max") or {}).items()):
        sentence = f"maximum {name} usage per {kind} is {bound}"
        found += _bound(sentence, bound, requests.get(name), limits.get(name), "limit", _more)
    for name, ratio in sorted((item.get("maxLimitRequestRatio") or {}).items()):
        found += _ratio(name, ratio, requests.get(name), limits.get(name), kind)
    return found


def _less(value: Quantity, bound: Quantity) -> bool:
    return value < bound


def _more(value: Quantity, bound: Quantity) -> bool:
    return bound < value


def _bound(
    sentence: str, bound: Any, request: Any, limit: Any, needed: str, breaks: Callable[[Quantity, Quantity], bool]
) -> list[str]:
    first, second = (request, limit) if needed == "request" else (limit, request)
    other = "limit" if needed == "request" else "request"
    if first is None:
        return [f"{sentence}.  No {needed} is specified"]
    if breaks(parse(first), parse(bound)):
        return [f"{sentence}, but {needed} is {first}"]
    if second is not None and breaks(parse(second), parse(bound)):
        return [f"{sentence}, but {other} is {second}"]
    return []


def _above(item: Object, values: Object, kind: str, word: str) -> list[str]:
    return [
        f"maximum {name} usage per {kind} is {bound}, but {word} is {values[name]}"
        for name, bound in sorted((item.get("max") or {}).items())
        if name in values and _more(parse(values[name]), parse(bound))
    ]


def _ratio(name: str, ratio: Any, request: Any, limit: Any, kind: str) -> list[str]:
    sentence = f"{name} max limit to request ratio per {kind} is {ratio}"
    if request is None or not parse(request):
        return [f"{sentence}, but no request is specified or request is 0"]
    if limit is None or not parse(limit):
        return [f"{sentence}, but no limit is specified or limit is 0"]
    observed = parse(limit).milli() / parse(request).milli()
    if observed > parse(ratio).milli() / 1000:
        return [f"{sentence}, but provided ratio is {observed:f}"]
    return []
