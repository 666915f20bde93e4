"""Services by one of their ready endpoints, for ``--enable-aggregator-routing``: where API servers have no way to cluster IPs.

A ``ServiceResolver`` beside ``service_client.ClusterServices``; upstream's is ``pkg/util/proxy`` of the API server library.
"""

import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from controlplane.apiserver.service_client import ResolveError

Object = Mapping[str, Any]
Lookup = Callable[[str, str, str], Awaitable[dict[str, Any] | None]]
SlicesOf = Callable[[str, str], Awaitable[Sequence[Object]]]
"""The EndpointSlices of a Service, by namespace and name."""

SERVICE_NAME = "kubernetes.io/service-name"


class EndpointServices:
    """``choose`` picks one of several addresses."""

    def __init__(
        self, lookup: Lookup, slices: SlicesOf, choose: Callable[[Sequence[tuple[str, int]]], tuple[str, int]] = random.choice
    ) -> None:
        self._lookup, self._slices, self._choose = lookup, slices, choose

    async def resolve(self, namespace: str, name: str, port: int) -> tuple[str, int]:
        service = await self._lookup("services", namespace, name)
        if service is None:
            raise ResolveError(f'service "{name}" not found')
        spec = service.get("spec") or {}
        kind = spec.get("type") or "ClusterIP"
        if kind not in ("ClusterIP", "NodePort", "LoadBalancer"):
            raise ResolveError(f'unsupported service type "{kind}"')
        found = next((each for each in spec.get("ports") or () if each.get("port") == port), None)
        if found is None:
            raise ResolveError(f'no service port {port} found for service "{name}"')
        ready = addresses(await self._slices(namespace, name), found.get("name") or "")
        if not ready:
            raise ResolveError(f'no endpoints available for service "{name}"')
        return self._choose(ready)


def addresses(slices: Iterable[Object], port_name: str) -> list[tuple[str, int]]:
    """The ready endpoints behind a port. Pure."""
    found: list[tuple[str, int]] = []
    for each in slices:
        numbers = [port["port"] for port in each.get("ports") or () if (port.get("name") or "") == port_name and port.get("port")]
        for endpoint in each.get("endpoints") or ():
            if is_ready(endpoint):
                found += [(address, number) for number in numbers[:1] for address in (endpoint.get("addresses") or ())[:1]]
    return found


def is_ready(endpoint: Object) -> bool:
    """Nothing said is ready."""
    return (endpoint.get("conditions") or {}).get("ready") is not False
