"""What an object costs a ResourceQuota. Pure: the API server's admission and the controller that recounts ask the same functions.

An *amount* is a mapping of quota names (``pods``, ``requests.cpu``, ``count/deployments.apps``) to quantities.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from apimachinery.objects import quota_claims, quota_pods
from apimachinery.quantity import ZERO, Quantity, of, parse

Object = Mapping[str, Any]
Amounts = dict[str, Quantity]

COUNT = "count/"
_CLASS_SUFFIX = ".storageclass.storage.k8s.io/"
_ONE = of(1)
_BY_PLAIN_NAME = frozenset(
    {"configmaps", "secrets", "replicationcontrollers", "resourcequotas", "services", "persistentvolumeclaims"}
)
_SERVICE_NAMES = frozenset({"services", "services.nodeports", "services.loadbalancers"})
_LOOKED_INTO = ("pods", "services", "persistentvolumeclaims", quota_claims.RESOURCE)
_CLAIM_NAMES = frozenset({"persistentvolumeclaims", "requests.storage"})


def parsed(listed: Mapping[str, Any] | None) -> Amounts:
    return {name: parse(text) for name, text in (listed or {}).items()}


def written(amounts: Mapping[str, Quantity]) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def add(first: Mapping[str, Quantity], second: Mapping[str, Quantity]) -> Amounts:
    return {name: first.get(name, ZERO) + second.get(name, ZERO) for name in {**first, **second}}


def subtract(first: Mapping[str, Quantity], second: Mapping[str, Quantity]) -> Amounts:
    return {name: first.get(name, ZERO) - second.get(name, ZERO) for name in {**first, **second}}


def shown(amounts: Mapping[str, Quantity]) -> str:
    """As refusals show it: sorted, ``name=amount`` with commas."""
    return ",".join(f"{name}={amount}" for name, amount in sorted(amounts.items()))


def usage(resource: str, obj: Object, now: datetime) -> Amounts:
    """What one object of ``resource`` (``pods``, ``deployments.apps``) costs."""
    if resource == "pods":
        return quota_pods.usage(obj, now)
    cost: Amounts = {COUNT + resource: _ONE}
    if resource in _BY_PLAIN_NAME:
        cost[resource] = _ONE
    if resource == "services":
        cost.update(_service(obj.get("spec") or {}))
    elif resource == "persistentvolumeclaims":
        cost.update(_claim(obj))
    elif resource == quota_claims.RESOURCE:
        cost.update(quota_claims.usage(obj))
    return cost


def _service(spec: Mapping[str, Any]) -> Amounts:
    ports = spec.get("ports") or ()
    if spec.get("type") == "NodePort":
        return {"services.nodeports": of(len(ports)), "services.loadbalancers": ZERO}
    if spec.get("type") == "LoadBalancer":
        if spec.get("allocateLoadBalancerNodePorts") is False:
            ports = [port for port in ports if port.get("nodePort")]
        return {"services.nodeports": of(len(ports)), "services.loadbalancers": _ONE}
    return {"services.nodeports": ZERO, "services.loadbalancers": ZERO}


def _claim(claim: Object) -> Amounts:
    spec = claim.get("spec") or {}
    annotations = (claim.get("metadata") or {}).get("annotations") or {}
    cost: Amounts = {}
    asked = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    given = ((claim.get("status") or {}).get("allocatedResources") or {}).get("storage")
    sizes = [parse(each) for each in (asked, given) if each is not None]
    of_class = annotations.get("volume.beta.kubernetes.io/storage-class", spec.get("storageClassName") or "")
    if sizes:
        cost["requests.storage"] = max(sizes)
    if of_class:
        cost[f"{of_class}{_CLASS_SUFFIX}persistentvolumeclaims"] = _ONE
        if sizes:
            cost[f"{of_class}{_CLASS_SUFFIX}requests.storage"] = max(sizes)
    return cost


def concerning(resource: str, names: Iterable[str]) -> set[str]:
    """Those of the quota's ``names`` that objects of ``resource`` count against."""
    return {name for name in names if _concerns(resource, name)}


def _concerns(resource: str, name: str) -> bool:
    if name == COUNT + resource or (name == resource and resource in _BY_PLAIN_NAME):
        return True
    if resource == "pods":
        return quota_pods.concerns(name)
    if resource == "services":
        return name in _SERVICE_NAMES
    if resource == "persistentvolumeclaims":
        return name in _CLAIM_NAMES or _CLASS_SUFFIX in name
    return resource == quota_claims.RESOURCE and name.endswith(quota_claims.SUFFIX)


def resources_of(names: Iterable[str]) -> set[str]:
    """The resources (``resource.group``) whose objects must be looked at to recount ``names``."""
    found = set()
    for name in names:
        if name.startswith(COUNT):
            found.add(name.removeprefix(COUNT))
        elif name in _BY_PLAIN_NAME:
            found.add(name)
        else:
            found |= {each for each in _LOOKED_INTO if _concerns(each, name)}
    return found


def needs_objects(resource: str) -> bool:
    """Whether ``usage`` looks at more than that the object exists."""
    return resource in _LOOKED_INTO


def matches(quota: Object, resource: str, obj: Object) -> bool:
    """Whether the object is within every scope of the quota. Only pods and claims have scopes."""
    return all(within(selector, resource, obj) for selector in selectors(quota))


def within(selector: Mapping[str, Any], resource: str, obj: Object) -> bool:
    """Whether the object is within one scope."""
    if resource == "pods":
        return quota_pods.within(selector, obj)
    return resource == "persistentvolumeclaims" and _claim_within(selector, obj)


def selectors(quota: Object) -> list[Mapping[str, Any]]:
    spec = quota.get("spec") or {}
    plain = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
    return plain + list((spec.get("scopeSelector") or {}).get("matchExpressions") or ())


def _claim_within(selector: Mapping[str, Any], claim: Object) -> bool:
    if selector.get("scopeName") != "VolumeAttributesClass":
        return False
    spec, status = claim.get("spec") or {}, claim.get("status") or {}
    held = (spec.get("volumeAttributesClassName"), status.get("currentVolumeAttributesClassName"))
    return any(quota_pods.chosen(selector, name or "") for name in held)
