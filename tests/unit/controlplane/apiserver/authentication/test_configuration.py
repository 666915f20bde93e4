"""AuthenticationConfiguration files: what they mean, what is refused and in which words, and what expressions make of claims."""

import json
from typing import Any

import pytest

from component.errors import OperatorError
from controlplane.apiserver.authentication.claims import Mapper
from controlplane.apiserver.authentication.configuration import AuthenticationConfiguration, read
from controlplane.apiserver.authentication.interface import AuthenticationFailed, UserInfo
from controlplane.apiserver.authentication.issuers import Issuer, checked

Object = dict[str, Any]
NAME = {"username": {"claim": "sub", "prefix": ""}}
CLAIMS: Object = {"sub": "jane", "email": "jane@example.com", "email_verified": True, "groups": ["dev", ""], "exp": 90, "nbf": 60}


def issuer(url: str = "https://p", **members: Any) -> Object:
    return {"issuer": {"url": url, "audiences": ["a"]}, "claimMappings": NAME, **members}


def config(*jwt: Object, **members: Any) -> AuthenticationConfiguration:
    document = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration", "jwt": list(jwt), **members}
    return read(json.dumps(document).encode(), ["https://kubernetes.default.svc"])


def mapped(**members: Any) -> Mapper:
    return Mapper(config(issuer(**members)).issuers[0])


def test_claims_by_name() -> None:
    mappings = {**NAME, "uid": {"claim": "oid"}, "groups": {"claim": "groups", "prefix": "x:"}}
    rules = [{"claim": "hd", "requiredValue": "example.com"}]
    (made,) = config(issuer(claimMappings=mappings, claimValidationRules=rules)).issuers
    user = Mapper(made).user({**CLAIMS, "hd": "example.com", "oid": "7"})
    assert user == UserInfo("jane", "7", ("x:dev",))
    with pytest.raises(AuthenticationFailed, match="has not the required value"):
        Mapper(made).user({**CLAIMS, "hd": "other.com"})


def test_claims_by_expression() -> None:
    mappings = {
        "username": {"expression": "'oidc:' + claims.email"},
        "groups": {"expression": "claims.groups.map(g, g == '' ? g : 'team-' + g)"},
        "uid": {"expression": "claims.sub"},
        "extra": [
            {"key": "example.com/tenant", "valueExpression": "claims.?tenant.orValue('')"},
            {"key": "example.com/verified", "valueExpression": "string(claims.email_verified)"},
        ],
    }
    rules = [{"expression": "claims.exp - claims.nbf <= 60", "message": "lives too long"}]
    users = [{"expression": "!user.username.startsWith('system:')", "message": "reserved"}]
    mapper = mapped(claimMappings=mappings, claimValidationRules=rules, userValidationRules=users)
    assert mapper.user(CLAIMS) == UserInfo("oidc:jane@example.com", "jane", ("team-dev",), {"example.com/verified": ("true",)})
    with pytest.raises(AuthenticationFailed, match="lives too long"):
        mapper.user({**CLAIMS, "exp": 1000})
    with pytest.raises(AuthenticationFailed, match="no such key: email"):
        mapper.user({key: value for key, value in CLAIMS.items() if key != "email"})


def test_users_that_rules_refuse() -> None:
    users = [{"expression": "user.groups.all(g, !g.startsWith('system:'))", "message": "no system groups"}]
    mapper = mapped(claimMappings={**NAME, "groups": {"claim": "groups", "prefix": ""}}, userValidationRules=users)
    assert mapper.user(CLAIMS).groups == ("dev",)
    with pytest.raises(AuthenticationFailed, match="no system groups"):
        mapper.user({**CLAIMS, "groups": ["system:masters"]})


@pytest.mark.parametrize("value", [3, "", ["a"], None])
def test_a_name_must_be_text(value: Any) -> None:
    mapper = mapped(claimMappings={"username": {"expression": "claims.name"}})
    with pytest.raises(AuthenticationFailed, match="must give text"):
        mapper.user({**CLAIMS, "name": value})


def test_anonymous_by_file() -> None:
    assert config().anonymous is None
    assert (config(anonymous={"enabled": False}).anonymous, config(anonymous={"enabled": True}).paths) == (False, ())
    found = config(anonymous={"enabled": True, "conditions": [{"path": "/livez"}, {"path": "/readyz"}]})
    assert (found.anonymous, found.paths) == (True, ("/livez", "/readyz"))


EXTRA = "claimMappings"
REFUSED: list[tuple[list[Object], str]] = [
    ([issuer(), issuer()], "jwt\\[1\\].issuer.url: Duplicate value"),
    ([issuer("https://kubernetes.default.svc")], "URL must not overlap with disallowed issuers"),
    ([issuer("http://p")], "must be an https URL"),
    ([issuer(issuer={"url": "https://p", "audiences": []})], "audience"),
    (
        [issuer(issuer={"url": "https://p", "audiences": ["a", "b"]})],
        "audienceMatchPolicy must be MatchAny for multiple audiences",
    ),
    ([issuer(claimMappings={})], "claimMappings.username: Required value: claim or expression is required"),
    ([issuer(claimMappings={"username": {"claim": "sub"}})], "prefix is required when claim is set"),
    (
        [issuer(claimMappings={"username": {"claim": "sub", "prefix": "", "expression": "claims.sub"}})],
        "claim and expression can't both be set",
    ),
    ([issuer(claimMappings={"username": {"expression": "claims.sub", "prefix": "x"}})], "prefix can't be set when expression"),
    ([issuer(claimMappings={"username": {"expression": "1"}})], "must evaluate to string"),
    ([issuer(claimMappings={"username": {"expression": "claim.sub"}})], "undeclared reference to 'claim"),
    ([issuer(claimMappings={"username": {"expression": "claims.email"}})], "claims.email_verified must be used"),
    ([issuer(claimMappings={"username": {"expression": "claims['email']"}})], "claims.email_verified must be used"),
    ([issuer(claimValidationRules=[{"expression": "claims.sub", "requiredValue": "x"}])], "requiredValue can't be set"),
    ([issuer(claimValidationRules=[{"expression": "'a'"}])], "must evaluate to bool"),
    ([issuer(claimValidationRules=[{"expression": "true"}, {"expression": "true"}])], "Duplicate value"),
    ([issuer(claimValidationRules=[{}])], "claim or expression is required"),
    ([issuer(userValidationRules=[{"expression": "user.name == 'a'"}])], "undefined field 'name'"),
    ([issuer(claimMappings={**NAME, "extra": [{"key": "Example.com/x", "valueExpression": "'a'"}]})], "must be lowercase"),
    ([issuer(claimMappings={**NAME, "extra": [{"key": "x", "valueExpression": "'a'"}]})], "domain-prefixed path"),
    ([issuer(claimMappings={**NAME, "extra": [{"key": "a.k8s.io/x", "valueExpression": "'a'"}]})], "are reserved"),
]


@pytest.mark.parametrize(("entries", "problem"), REFUSED)
def test_what_is_refused(entries: list[Object], problem: str) -> None:
    with pytest.raises(OperatorError, match=problem):
        config(*entries)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"a: [", "not YAML"),
        (b"kind: Other", "must be of kind AuthenticationConfiguration"),
        (b"[]", "must be of kind"),
        (b"a" * (2 << 20), "larger than"),
    ],
)
def test_what_is_no_such_file(data: bytes, problem: str) -> None:
    with pytest.raises(OperatorError, match=problem):
        read(data)


def test_conditions_need_anonymous_to_be_enabled() -> None:
    with pytest.raises(OperatorError, match="enabled should be set to true when conditions are defined"):
        config(anonymous={"enabled": False, "conditions": [{"path": "/livez"}]})


def test_a_verified_address_may_name_a_user() -> None:
    rules = [{"expression": "claims.?email_verified.orValue(true) == true"}]
    mapper = mapped(claimMappings={"username": {"expression": "claims.email"}}, claimValidationRules=rules)
    assert mapper.user(CLAIMS).name == "jane@example.com"
    with pytest.raises(AuthenticationFailed):
        mapper.user({**CLAIMS, "email_verified": False})


def test_issuers_of_flags_are_checked_too() -> None:
    with pytest.raises(OperatorError, match="must be an https URL"):
        checked(Issuer("http://p", ("a",)), "--oidc-issuer-url")
