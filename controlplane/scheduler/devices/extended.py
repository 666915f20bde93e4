"""Extended resources that devices stand for: from what containers ask to requests of one claim (KEP-5004).

A container that runs as long as the pod has requests of its own. An init container borrows from those that come after it and
asks for more only where these do not suffice; of all init containers the one that needs most counts.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apimachinery import quantity
from apimachinery.meta import Object, name_of, namespace_of, owner_reference
from apimachinery.names import is_extended_resource
from apimachinery.objects import claims, pods

Mapped = dict[str, str]
"""An entry of ``extendedResourceClaimStatus.requestMappings``."""


@dataclass(frozen=True, slots=True)
class Requests:
    """``listed`` for the claim's spec; ``mappings`` tell which container gets which."""

    listed: tuple[dict[str, Any], ...]
    mappings: tuple[Mapped, ...]


def may_be_device(resource: str) -> bool:
    return is_extended_resource(resource) or resource.startswith(claims.IMPLICIT_EXTENDED_PREFIX)


def claim_for(pod: Object, uid: str, requests: Requests) -> Object:
    """The claim to be made for the pod. ``uid`` stands for the one that the server will give."""
    metadata = {
        "generateName": f"{name_of(pod)}-extended-resources-",
        "namespace": namespace_of(pod),
        "uid": uid,
        "annotations": {claims.EXTENDED_ANNOTATION: "true"},
        "ownerReferences": [owner_reference(pod, "v1", "Pod")],
    }
    spec = {"devices": {"requests": list(requests.listed)}}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": spec}


def requests_of(pod: Object, resources: Collection[str], class_of: Callable[[str], str]) -> Requests:
    """What the claim must ask for, of these resources. Pure."""
    spec = pods.spec_of(pod)
    init = list(spec.get("initContainers") or ())
    containers = [*init, *(spec.get("containers") or ())]
    short = [index for index, each in enumerate(init) if not pods.is_sidecar(each)]
    listed: list[dict[str, Any]] = []
    mappings: list[Mapped] = []
    for resource in sorted(resources):
        asks = _Asks(containers, resource, class_of(resource))
        held: list[dict[str, Any] | None] = [None] * len(containers)
        for index in range(len(containers)):
            if index not in short:
                held[index] = asks.request(index, (), mappings)
        borrowed: list[Mapped] = []
        more = [made for index in short if (made := asks.request(index, held[index:], borrowed)) is not None]
        if more:
            most = max(more, key=lambda made: int(made["exactly"]["count"]))
            others = {made["name"] for made in more}
            for each in borrowed:
                if each["requestName"] in others:
                    each["requestName"] = most["name"]
            listed.append(most)
        listed += [made for made in held if made is not None]
        mappings += borrowed
    return Requests(tuple(sorted(listed, key=lambda made: str(made["name"]))), tuple(mappings))


@dataclass(frozen=True, slots=True)
class _Asks:
    containers: Sequence[Mapping[str, Any]]
    resource: str
    device_class: str

    def request(self, index: int, borrow: Sequence[dict[str, Any] | None], mappings: list[Mapped]) -> dict[str, Any] | None:
        """What container ``index`` needs beyond what it can borrow; notes where each part comes from."""
        container = self.containers[index]
        amounts = (container.get("resources") or {}).get("requests") or {}
        wanted = quantity.parse(amounts[self.resource]).value() if self.resource in amounts else 0
        if wanted <= 0:
            return None
        found = 0
        for lender in borrow:
            if lender is not None and found < wanted:
                found += int(lender["exactly"]["count"])
                mappings.append(self._mapped(container, lender["name"]))
        if found >= wanted:
            return None
        name = f"container-{index}-request-{sorted(amounts).index(self.resource)}"
        mappings.append(self._mapped(container, name))
        asked = {"deviceClassName": self.device_class, "allocationMode": "ExactCount", "count": wanted - found}
        return {"name": name, "exactly": asked}

    def _mapped(self, container: Mapping[str, Any], request: str) -> Mapped:
        return {"containerName": container["name"], "resourceName": self.resource, "requestName": request}
