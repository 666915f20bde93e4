"""Files that decide who gets in mean what they say, or nothing."""

import json
from typing import Any

import pytest

from component import strict
from component.errors import OperatorError
from controlplane.apiserver.admission.pod_security.policy import settings_from
from controlplane.apiserver.authentication import configuration as authentication
from controlplane.apiserver.authorization import configuration as authorization

SHAPE: strict.Shape = {"a": None, "b": {"c": None}, "d": [{"e": None}]}
ISSUER = {"url": "https://p", "audiences": ["a"]}
MAPPINGS = {"username": {"claim": "sub", "prefix": ""}}


@pytest.mark.parametrize(
    ("document", "found"),
    [
        ({"a": {"anything": [1]}, "b": {"c": 1}, "d": [{"e": 1}, {}]}, []),
        ({"A": 1}, ['unknown field "A"']),
        ({"b": {"x": 1}, "d": [{}, {"y": 2}]}, ['unknown field "b.x"', 'unknown field "d[1].y"']),
        ("text", []),
    ],
)
def test_unknown_fields(document: Any, found: list[str]) -> None:
    assert list(strict.unknown(document, SHAPE)) == found


def test_a_key_counts_once() -> None:
    assert strict.load(b"a: 1\nb: &x {c: 2}\nd: [*x, {<<: *x, e: 3}]") == {
        "a": 1,
        "b": {"c": 2},
        "d": [{"c": 2}, {"c": 2, "e": 3}],
    }
    for doubled in (b"a: 1\na: 2", b'{"b": {"c": 1, "c": 2}}'):
        with pytest.raises(ValueError, match="already set in map"):
            strict.load(doubled)


def jwt(**more: Any) -> bytes:
    entry = {"issuer": ISSUER, "claimMappings": MAPPINGS, **more}
    kind = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration"}
    return json.dumps({**kind, "jwt": [entry]}).encode()


@pytest.mark.parametrize(
    ("member", "value"),
    [("claimValidationRule", []), ("userValidationRule", [{"expression": "false"}]), ("claimvalidationrules", [])],
)
def test_a_misspelt_rule_lets_nobody_in(member: str, value: Any) -> None:
    """Passed over in silence it would let in whom the rule was written against."""
    authentication.read(jwt())
    with pytest.raises(OperatorError, match=rf'strict decoding error: unknown field "jwt\[0\].{member}"'):
        authentication.read(jwt(**{member: value}))


def test_egress_of_an_issuer() -> None:
    for kind in ("controlplane", "cluster"):
        assert authentication.read(jwt(issuer={**ISSUER, "egressSelectorType": kind})).issuers[0].url == "https://p"
    with pytest.raises(OperatorError, match="egressSelectorType: Invalid value: 'etcd'"):
        authentication.read(jwt(issuer={**ISSUER, "egressSelectorType": "etcd"}))


def test_authorizers_and_standards_too() -> None:
    kind = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration"}
    webhook = {"matchCondition": [{"expression": "false"}]}
    document = {**kind, "authorizers": [{"type": "Webhook", "name": "w", "webhook": webhook}]}
    with pytest.raises(OperatorError, match=r'unknown field "authorizers\[0\].webhook.matchCondition"'):
        authorization.read(json.dumps(document).encode())
    with pytest.raises(OperatorError, match=r'unknown field "defaults\.enforced"'):
        settings_from({"defaults": {"enforced": "restricted"}})
