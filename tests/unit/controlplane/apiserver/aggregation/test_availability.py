"""What objects alone say of an APIService's availability: upstream's reasons and words."""

from typing import Any

import pytest

from controlplane.apiserver.aggregation.availability import judge
from controlplane.apiserver.aggregation.registered import ServiceReference

THINGS = ServiceReference("ns", "things", 443)
SERVICE = {"spec": {"type": "ClusterIP", "ports": [{"port": 443, "name": "https"}]}}
READY: dict[str, Any] = {"ports": [{"name": "https", "port": 8443}], "endpoints": [{"addresses": ["10.0.0.1"]}]}


def slice_with(**changes: Any) -> dict[str, Any]:
    return {**READY, **changes}


@pytest.mark.parametrize(
    ("service", "slices", "reason", "message"),
    [
        pytest.param(None, [], "ServiceNotFound", 'service/things in "ns" is not present', id="no-service"),
        pytest.param(
            {"spec": {"ports": [{"port": 80}]}},
            [READY],
            "ServicePortError",
            'service/things in "ns" is not listening on port 443',
            id="another-port",
        ),
        pytest.param(SERVICE, [], "EndpointsNotFound", 'cannot find endpointslices for service/things in "ns"', id="no-slice"),
        pytest.param(
            SERVICE,
            [slice_with(endpoints=[{"conditions": {"ready": False}}]), slice_with(ports=[{"name": "other", "port": 1}])],
            "MissingEndpoints",
            'endpointslices for service/things in "ns" have no addresses with port name "https"',
            id="nothing-ready-on-the-port",
        ),
    ],
)
def test_what_is_missing(service: Any, slices: list[Any], reason: str, message: str) -> None:
    assert judge(THINGS, service, slices) == ("False", reason, message)


@pytest.mark.parametrize(
    "service", [SERVICE, {"spec": {"type": "NodePort"}}, {"spec": {"type": "ExternalName", "externalName": "elsewhere"}}]
)
def test_only_the_server_can_tell_the_rest(service: Any) -> None:
    """Of Services that are no cluster IPs the endpoints may be nobody's business here."""
    assert judge(THINGS, service, [slice_with(endpoints=[]), READY]) is None
