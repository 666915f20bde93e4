"""Rules held against requests."""

import pytest

from controlplane.apiserver.authentication.interface import ANONYMOUS, UserInfo
from controlplane.apiserver.authorization.components import ComponentAuthorizer
from controlplane.apiserver.authorization.interface import Attributes, Decision
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


def of(user: UserInfo, verb: str, resource: str, sub: str = "", group: str = "", namespace: str = "n") -> Attributes:
    return Attributes(user, verb, "", True, group, "v1", resource, sub, namespace)


SCHEDULER = UserInfo("system:kube-scheduler", groups=("system:authenticated",))
NODE = UserInfo("system:node:n1", groups=("system:nodes", "system:authenticated"))
ACCOUNT = UserInfo("system:serviceaccount:n:a", groups=("system:serviceaccounts", "system:authenticated"))
COMPONENTS = [
    pytest.param(of(SCHEDULER, "create", "pods", "binding"), True, id="scheduler-binds"),
    pytest.param(of(SCHEDULER, "create", "pods"), False, id="scheduler-creates-no-pods"),
    pytest.param(of(SCHEDULER, "get", "secrets"), False, id="scheduler-reads-no-secrets"),
    pytest.param(of(NODE, "patch", "pods", "status"), True, id="node-reports"),
    pytest.param(of(NODE, "get", "secrets"), False, id="node-reads-no-secret-as-such"),
    pytest.param(of(NODE, "update", "leases", group="coordination.k8s.io", namespace="kube-node-lease"), True, id="node-lease"),
    pytest.param(of(NODE, "update", "leases", group="coordination.k8s.io", namespace="default"), False, id="other-lease"),
    pytest.param(of(ACCOUNT, "get", "pods"), False, id="account-has-nothing"),
    pytest.param(of(UserInfo("stranger", groups=("system:authenticated",)), "get", "pods"), False, id="any-certificate"),
    pytest.param(Attributes(ANONYMOUS, "get", "/readyz", False), True, id="anonymous-health"),
    pytest.param(Attributes(ANONYMOUS, "get", "/api", False), False, id="anonymous-discovery"),
    pytest.param(Attributes(ACCOUNT, "get", "/apis", False), True, id="account-discovery"),
]


@pytest.mark.parametrize(("attributes", "allowed"), COMPONENTS)
async def test_components(attributes: Attributes, allowed: bool) -> None:
    decision, _ = await ComponentAuthorizer().authorize(attributes)
    assert (decision is Decision.ALLOW) is allowed
