"""The roles and bindings that every cluster has from the start: the user-facing ones and the components' own. Pure data.

``poststart`` writes them when they are missing, and adds what has been taken from them (``reconcile``).
The components' rules are those of ``components``, so that what is enforced
and what is shown cannot differ.
"""

from typing import Any

from controlplane.apiserver.authorization import components
from controlplane.apiserver.authorization.rules import ALL, Rule, rule_value

Object = dict[str, Any]

GROUP = "rbac.authorization.k8s.io"
_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "deletecollection", "patch", "update")
_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_ANNOTATIONS = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"

_WORKLOADS = (
    (
        "apps",
        (
            "daemonsets",
            "deployments",
            "deployments/scale",
            "replicasets",
            "replicasets/scale",
            "statefulsets",
            "statefulsets/scale",
        ),
    ),
    ("autoscaling", ("horizontalpodautoscalers",)),
    ("batch", ("cronjobs", "jobs")),
    ("policy", ("poddisruptionbudgets",)),
    ("networking.k8s.io", ("ingresses", "networkpolicies")),
    ("", ("configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "replicationcontrollers/scale")),
    ("", ("serviceaccounts", "services")),
)
_ALSO_SEEN = (
    ("", ("bindings", "events", "limitranges", "namespaces/status", "pods/log", "pods/status", "resourcequotas", "namespaces")),
    ("", ("replicationcontrollers/status", "resourcequotas/status", "services/status", "persistentvolumeclaims/status")),
    ("apps", ("controllerrevisions", "daemonsets/status", "deployments/status", "replicasets/status", "statefulsets/status")),
    ("autoscaling", ("horizontalpodautoscalers/status",)),
    ("batch", ("cronjobs/status", "jobs/status")),
    ("networking.k8s.io", ("ingresses/status",)),
    ("policy", ("poddisruptionbudgets/status",)),
    ("", ("endpoints",)),  # seen and not written: they lead traffic anywhere (CVE-2021-25740)
    ("discovery.k8s.io", ("endpointslices",)),
)

VIEW = tuple(Rule(_READ, (group,), resources) for group, resources in (*_WORKLOADS, *_ALSO_SEEN))
EDIT = (
    Rule(_READ, ("",), ("pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "secrets", "services/proxy")),
    Rule(("impersonate",), ("",), ("serviceaccounts",)),
    Rule(_WRITE, ("",), ("pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "services/proxy")),
    Rule(("create",), ("",), ("pods/eviction",)),
    Rule(("create",), ("",), ("serviceaccounts/token",)),
    *(Rule(_WRITE, (group,), resources) for group, resources in _WORKLOADS),
    Rule(_WRITE, ("",), ("secrets", "events")),
    Rule((*_READ, *_WRITE), ("coordination.k8s.io",), ("leases",)),
)
ADMIN = (
    Rule(("create",), ("authorization.k8s.io",), ("localsubjectaccessreviews",)),
    Rule((*_READ, *_WRITE), (GROUP,), ("rolebindings", "roles")),
)

_COMPONENT_ROLES: tuple[tuple[str, tuple[Rule, ...], str, str], ...] = (
    ("cluster-admin", (Rule(ALL, ALL, ALL), Rule(ALL, paths=ALL)), "Group", "system:masters"),
    ("system:basic-user", (components.SELF_REVIEWS,), "Group", "system:authenticated"),
    ("system:discovery", (components.HEALTH, components.DISCOVERY), "Group", "system:authenticated"),
    ("system:public-info-viewer", (components.HEALTH,), "Group", "system:unauthenticated"),
    ("system:service-account-issuer-discovery", (components.ISSUER,), "Group", "system:serviceaccounts"),
    ("system:monitoring", components.METRICS, "Group", "system:monitoring"),
    ("system:kube-scheduler", components.SCHEDULER, "User", "system:kube-scheduler"),
    ("system:kube-controller-manager", components.CONTROLLER_MANAGER, "User", "system:kube-controller-manager"),
    ("system:node-proxier", components.PROXY, "User", "system:kube-proxy"),
    ("system:kubelet-api-admin", components.KUBELET_API, "User", "kube-apiserver-kubelet-client"),
)
_EVENTS = Rule(("create", "patch", "update"), ("", "events.k8s.io"), ("events",))
_CSR = "certificates.k8s.io"


def _approver(signer: str) -> tuple[Rule, ...]:
    return (Rule(("approve",), (_CSR,), ("signers",), (f"kubernetes.io/{signer}",)),)


_UNBOUND: tuple[tuple[str, tuple[Rule, ...]], ...] = (
    ("system:node", components.NODE),
    ("system:auth-delegator", components.DELEGATED),
    ("system:node-bootstrapper", components.BOOTSTRAPPERS),
    ("system:kube-dns", components.DNS),
    ("system:kube-aggregator", (Rule(_READ, ("",), ("endpoints", "services")),)),
    ("system:heapster", (Rule(_READ, ("",), ("events", "namespaces", "nodes", "pods")),)),
    (
        "system:node-problem-detector",
        (Rule(("get",), ("",), ("nodes",)), Rule(("patch",), ("",), ("nodes/status",)), _EVENTS),
    ),
    (
        "system:persistent-volume-provisioner",
        (
            Rule((*_READ, "create", "delete"), ("",), ("persistentvolumes",)),
            Rule((*_READ, "update"), ("",), ("persistentvolumeclaims",)),
            Rule(_READ, ("storage.k8s.io",), ("storageclasses",)),
            Rule(("watch",), ("",), ("events",)),
            _EVENTS,
        ),
    ),
    (
        "system:volume-scheduler",
        (
            Rule((*_READ, "patch", "update"), ("",), ("persistentvolumes", "persistentvolumeclaims")),
            Rule(_READ, ("storage.k8s.io",), ("storageclasses",)),
        ),
    ),
    (
        f"system:{_CSR}:certificatesigningrequests:nodeclient",
        (Rule(("create",), (_CSR,), ("certificatesigningrequests/nodeclient",)),),
    ),
    (
        f"system:{_CSR}:certificatesigningrequests:selfnodeclient",
        (Rule(("create",), (_CSR,), ("certificatesigningrequests/selfnodeclient",)),),
    ),
    (f"system:{_CSR}:kube-apiserver-client-approver", _approver("kube-apiserver-client")),
    (f"system:{_CSR}:kube-apiserver-client-kubelet-approver", _approver("kube-apiserver-client-kubelet")),
    (f"system:{_CSR}:kubelet-serving-approver", _approver("kubelet-serving")),
    (f"system:{_CSR}:legacy-unknown-approver", _approver("legacy-unknown")),
)
_USER_ROLES = (("view", VIEW, "edit"), ("edit", EDIT, "admin"), ("admin", ADMIN, ""))


def roles() -> list[Object]:
    """Every ClusterRole. ``admin``, ``edit`` and ``view`` aggregate, so that others can add to them by a label."""
    made = [_role(name, rules) for name, rules, _, _ in _COMPONENT_ROLES]
    made += [_role(name, rules) for name, rules in _UNBOUND]
    for name, rules, into in _USER_ROLES:
        labels = {f"{_AGGREGATE}{name}": "true"}
        made.append(_role(f"system:aggregate-to-{name}", rules, labels))
        selectors = [{"matchLabels": labels}]
        aggregate = {f"{_AGGREGATE}{into}": "true"} if into else {}
        made.append({**_role(name, None, aggregate), "aggregationRule": {"clusterRoleSelectors": selectors}})
    return made


def bindings() -> list[Object]:
    return [_binding(name, kind, subject) for name, _, kind, subject in _COMPONENT_ROLES]


def authentication_reader() -> list[tuple[str, Object]]:
    """A Role in kube-system, bound to the components that must know whom the API server believes."""
    name = "extension-apiserver-authentication-reader"
    rule = Rule(_READ, ("",), ("configmaps",), ("extension-apiserver-authentication",))
    role = _role(name, (rule,))
    binding = _binding(name, "User", "system:kube-controller-manager")
    binding["metadata"]["name"] = f"system::{name}"
    scheduler = {"apiGroup": GROUP, "kind": "User", "name": "system:kube-scheduler"}
    binding["subjects"].append(scheduler)
    role["kind"], binding["kind"], binding["roleRef"]["kind"] = "Role", "RoleBinding", "Role"
    for obj in (role, binding):
        obj["metadata"]["namespace"] = "kube-system"
    return [("roles", role), ("rolebindings", binding)]


def _role(name: str, rules: tuple[Rule, ...] | None, labels: dict[str, str] | None = None) -> Object:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": {**_LABELS, **(labels or {})}, "annotations": dict(_ANNOTATIONS)},
        "rules": [rule_value(rule) for rule in rules] if rules is not None else None,
    }


def _binding(role: str, kind: str, subject: str) -> Object:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": role, "labels": dict(_LABELS), "annotations": dict(_ANNOTATIONS)},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": GROUP, "kind": kind, "name": subject}],
    }
