"""Rules held against requests."""

import pytest

from controlplane.apiserver.authentication.interface import UserInfo
from controlplane.apiserver.authorization.interface import Attributes
from controlplane.apiserver.authorization.rules import Rule

ANYBODY = UserInfo("x")


def asked(
    verb: str = "get", resource: str = "pods", group: str = "", sub: str = "", namespace: str = "n", name: str = ""
) -> Attributes:
    return Attributes(ANYBODY, verb, "", True, group, "v1", resource, sub, namespace, name)


RULES = [
    pytest.param(Rule(("get",), ("",), ("pods",)), asked(), True, id="plain"),
    pytest.param(Rule(("get",), ("",), ("pods",)), asked("list"), False, id="other-verb"),
    pytest.param(Rule(("get",), ("",), ("pods",)), asked(group="apps"), False, id="other-group"),
    pytest.param(Rule(("get",), ("",), ("pods",)), asked(sub="log"), False, id="subresource-not-meant"),
    pytest.param(Rule(("get",), ("",), ("pods/log",)), asked(sub="log"), True, id="subresource"),
    pytest.param(Rule(("get",), ("",), ("*/scale",)), asked(resource="deployments", sub="scale"), True, id="any-scale"),
    pytest.param(Rule(("*",), ("*",), ("*",)), asked("delete", "secrets", "g", "x"), True, id="everything"),
    pytest.param(Rule(("get",), ("",), ("pods",), ("p",)), asked(name="p"), True, id="named"),
    pytest.param(Rule(("get",), ("",), ("pods",), ("p",)), asked(name="q"), False, id="other-name"),
    pytest.param(Rule(("get",), ("",), ("pods",), namespaces=("n",)), asked(namespace="m"), False, id="other-namespace"),
    pytest.param(Rule(("get",), paths=("/healthz/*",)), Attributes(ANYBODY, "get", "/healthz/ping", False), True, id="path"),
    pytest.param(Rule(("get",), paths=("/healthz",)), Attributes(ANYBODY, "get", "/healthz/ping", False), False, id="path-below"),
    pytest.param(Rule(("*",), ("*",), ("*",)), Attributes(ANYBODY, "get", "/metrics", False), False, id="path-needs-path"),
]


@pytest.mark.parametrize(("rule", "attributes", "allowed"), RULES)
def test_rules(rule: Rule, attributes: Attributes, allowed: bool) -> None:
    assert rule.allows(attributes) is allowed
