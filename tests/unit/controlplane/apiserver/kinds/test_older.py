"""Objects of versions that nobody serves any more, as they lie in old stores."""

from typing import Any

import pytest

from controlplane.apiserver.kinds.catalog import strategies
from controlplane.apiserver.kinds.config import KindsConfig
from controlplane.apiserver.kinds.older import _RENAMED, conversion

Object = dict[str, Any]


@pytest.fixture(scope="module")
def convert() -> Any:
    return conversion(strategies(KindsConfig()))


def made(api_version: str, kind: str, **parts: Any) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, **parts}


@pytest.mark.parametrize("api_version", ["networking.k8s.io/v1beta1", "extensions/v1beta1"])
def test_ingresses_name_services_anew(convert: Any, api_version: str) -> None:
    paths = [{"path": "/x", "backend": {"serviceName": "s", "servicePort": "web"}}]
    spec = {"backend": {"serviceName": "d", "servicePort": 80}, "rules": [{"host": "h", "http": {"paths": paths}}, {"host": "i"}]}
    found = convert(made(api_version, "Ingress", spec=spec))
    assert found["apiVersion"] == "networking.k8s.io/v1"
    assert found["spec"]["defaultBackend"] == {"service": {"name": "d", "port": {"number": 80}}}
    backend = {"service": {"name": "s", "port": {"name": "web"}}}
    path = {"path": "/x", "pathType": "ImplementationSpecific", "backend": backend}
    assert found["spec"]["rules"] == [{"host": "h", "http": {"paths": [path]}}, {"host": "i"}]
    assert "backend" not in found["spec"]


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_assured_shares_are_nominal_ones(convert: Any, version: str) -> None:
    spec = {"type": "Limited", "limited": {"assuredConcurrencyShares": 7, "limitResponse": {"type": "Reject"}}}
    found = convert(made(f"flowcontrol.apiserver.k8s.io/{version}", "PriorityLevelConfiguration", spec=spec))
    assert found["spec"]["limited"]["nominalConcurrencyShares"] == 7
    assert "assuredConcurrencyShares" not in found["spec"]["limited"]


def test_every_renamed_version_leads_to_the_stored_one(convert: Any) -> None:
    stored = {(one.info.gvk.group, one.info.gvk.kind): one.info for one in strategies(KindsConfig()) if one.stored_as is None}
    for group, (versions, kinds) in _RENAMED.items():
        for kind in kinds.split():
            for version in versions.split():
                found = convert(made(f"{group}/{version}", kind, spec={}))
                assert found["apiVersion"] == stored[group, kind].gvk.api_version


def test_views_convert_and_defaults_are_todays(convert: Any) -> None:
    spec = {"minAvailable": 1, "selector": {}}
    found = convert(made("policy/v1beta1", "PodDisruptionBudget", spec=spec))
    assert found["spec"]["selector"] != {}, "an empty selector of v1beta1 chooses nothing"
    service = convert(made("v1", "Service", spec={"type": "ClusterIP", "ports": [{"port": 1}], "clusterIP": "10.0.0.1"}))
    assert service["spec"]["internalTrafficPolicy"] == "Cluster"


def test_what_is_not_known_is_left(convert: Any) -> None:
    assert convert(made("policy/v1beta1", "PodSecurityPolicy")) is None
    assert convert(made("example.com/v1", "Widget")) is None
