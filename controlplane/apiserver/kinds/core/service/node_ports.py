"""Node ports and health check ports: chosen from the server's range, claimed by keys that name their holder."""

from collections.abc import Iterator, Mapping
from typing import Any

from apimachinery import errors, fieldpath
from controlplane.apiserver.kinds.core.service import defaults
from controlplane.apiserver.kinds.core.service.picked import PickedNumber
from controlplane.apiserver.registry.allocation import ALREADY_ALLOCATED_PORT, Pool, RangeFullError, Reader, ports

Object = dict[str, Any]

PREFIX = "/registry/ranges/servicenodeports/"


def ports_of(service: Mapping[str, Any] | None) -> Iterator[int]:
    """Claimed ports; a Service of another type holds none, whatever it shows."""
    spec = (service or {}).get("spec") or {}
    if spec.get("type") in defaults.NODE_PORT_TYPES:
        yield from (port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort"))
        if spec.get("healthCheckNodePort"):
            yield spec["healthCheckNodePort"]


class NodePorts:
    """Fills ``nodePort`` of every port and ``healthCheckNodePort``."""

    def __init__(self, low: int, high: int, reader: Reader | None) -> None:
        self._low, self._high = low, high
        self._pool = Pool(reader, PREFIX, ports(low, high)) if reader else None

    async def choose(self, service: Object, held: set[int]) -> None:
        """Requested ports are checked, missing ones picked. Raises 422, or 500 for a health check port as upstream does."""
        spec = service["spec"]
        if spec.get("type") in defaults.NODE_PORT_TYPES:
            await self._choose_ports(service, held, pick=defaults.needs_node_ports(spec))
        if defaults.needs_health_port(spec):
            await self._choose_health_port(service, held)

    async def _choose_ports(self, service: Object, held: set[int], *, pick: bool) -> None:
        """``pick`` the missing ones too, which a load balancer may do without."""
        listed = service["spec"].get("ports") or ()
        for port in listed:
            if isinstance(port.get("nodePort"), PickedNumber) and port["nodePort"] not in held:
                del port["nodePort"]
        by_port: dict[int, int] = {port["port"]: port["nodePort"] for port in listed if port.get("nodePort")}
        checked = set(held)
        for position, port in enumerate(listed):
            wanted = port.get("nodePort") or 0
            if wanted:
                problem = "" if wanted in checked else await self._problem(wanted)
                if problem:
                    error = fieldpath.invalid(f"spec.ports[{position}].nodePort", wanted, problem)
                    raise errors.invalid("Service", service["metadata"]["name"], [error])
                checked.add(wanted)
            elif pick:
                # TCP and UDP of one port number share their node port, which serves each protocol by itself
                number = by_port.get(port["port"]) or await self._pick(service)
                by_port[port["port"]] = port["nodePort"] = PickedNumber(number)

    async def _choose_health_port(self, service: Object, held: set[int]) -> None:
        spec = service["spec"]
        wanted = spec.get("healthCheckNodePort") or 0
        if wanted in held:
            return
        if wanted and not isinstance(wanted, PickedNumber):
            problem = await self._problem(wanted)
            if problem:
                raise errors.internal(f"failed to allocate requested HealthCheck NodePort {wanted}: {problem}")
            return
        spec.pop("healthCheckNodePort", None)
        spec["healthCheckNodePort"] = await self._pick(service)

    async def _pick(self, service: Object) -> int:
        assert self._pool is not None
        try:
            return PickedNumber(await self._pool.pick({str(port) for port in ports_of(service)}))
        except RangeFullError as full:
            raise errors.internal(f"failed to allocate a nodePort: {full}") from None

    async def _problem(self, port: int) -> str:
        """Why a requested port cannot be had, or an empty string."""
        assert self._pool is not None
        if not self._low <= port <= self._high:
            return f"provided port is not in the valid range. The range of valid ports is {self._low}-{self._high}"
        return ALREADY_ALLOCATED_PORT if await self._pool.is_taken(str(port)) else ""
