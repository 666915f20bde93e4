"""Keys are where upstream has them, and lead back to their resource."""

import pytest

from controlplane.apiserver.kinds.catalog import strategies
from controlplane.apiserver.kinds.config import KindsConfig
from controlplane.apiserver.registry.strategy import Strategy
from controlplane.apiserver.storage.layout import resource_of, resource_prefix


@pytest.mark.parametrize(
    ("group", "plural", "prefix"),
    [
        ("", "pods", "/registry/pods/"),
        ("", "nodes", "/registry/minions/"),
        ("", "services", "/registry/services/specs/"),
        ("", "endpoints", "/registry/services/endpoints/"),
        ("", "replicationcontrollers", "/registry/controllers/"),
        ("apps", "deployments", "/registry/deployments/"),
        ("networking.k8s.io", "ingresses", "/registry/ingress/"),
        ("networking.k8s.io", "ingressclasses", "/registry/ingressclasses/"),
        ("apiextensions.k8s.io", "customresourcedefinitions", "/registry/apiextensions.k8s.io/customresourcedefinitions/"),
        ("apiregistration.k8s.io", "apiservices", "/registry/apiregistration.k8s.io/apiservices/"),
        ("gateway.networking.k8s.io", "gateways", "/registry/gateway.networking.k8s.io/gateways/"),
    ],
)
def test_places(group: str, plural: str, prefix: str) -> None:
    assert resource_prefix(group, plural) == prefix
    assert resource_of(f"{prefix}default/x") == f"{plural}.{group}".rstrip(".")


@pytest.mark.parametrize("kind", strategies(KindsConfig()), ids=lambda kind: f"{kind.info.plural}.{kind.info.gvk.group}")
def test_every_kind_is_found_back(kind: Strategy) -> None:
    """A new kind of a built-in group belongs into ``layout.BUILT_IN``: encryption looks resources up by key."""
    info = kind.stored_as or kind.info
    name = f"{info.plural}.{info.gvk.group}".rstrip(".")
    assert resource_of(f"{resource_prefix(info.gvk.group, info.plural)}x") == name


def test_other_keys_have_none() -> None:
    assert [resource_of(key) for key in ("", "compact_rev_key", "/other/pods/x")] == ["", "", ""]
