"""The ClusterRoles and bindings that every cluster has from the start; controllers have ``controller_policy``. Pure data.

Upstream's of v1.36 (``plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go``); what differs says why. ``poststart`` writes
them when they are missing, and adds what has been taken from them (``reconcile``).
"""

from typing import Any

from controlplane.apiserver.authorization import controller_policy, namespace_policy
from controlplane.apiserver.authorization.rules import Rule, path_rule, rule, rule_value

Object = dict[str, Any]

GROUP = "rbac.authorization.k8s.io"
_READ = "get list watch"
_WRITE = "create delete deletecollection patch update"
_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_ANNOTATIONS = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"

EVENTS = rule("create patch update", "core events.k8s.io", "events")
DELEGATED = (
    rule("create", "authentication.k8s.io", "tokenreviews"),
    rule("create", "authorization.k8s.io", "subjectaccessreviews"),
)
# single checks below these (/readyz/etcd) are for system:monitoring
_HEALTH = "/healthz /livez /readyz /version /version/"

VIEW = (
    rule(
        _READ,
        "core",
        "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers"
        " replicationcontrollers/scale serviceaccounts services services/status",
    ),
    rule(
        _READ,
        "core",
        "bindings events limitranges namespaces/status pods/log pods/status replicationcontrollers/status resourcequotas"
        " resourcequotas/status",
    ),
    rule(_READ, "core", "namespaces"),
    rule(_READ, "discovery.k8s.io", "endpointslices"),
    rule(
        _READ,
        "apps",
        "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status replicasets"
        " replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status",
    ),
    rule(_READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
    rule(_READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
    rule(
        _READ,
        "extensions",
        "daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses ingresses/status"
        " networkpolicies replicasets replicasets/scale replicasets/status replicationcontrollers/scale",
    ),
    rule(_READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
    rule(_READ, "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
    rule(_READ, "resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates"),
)
# endpoints and endpoint slices are seen and not written: they lead traffic anywhere (CVE-2021-25740)
EDIT = (
    rule(_READ, "core", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"),
    rule("impersonate", "core", "serviceaccounts"),
    rule(_WRITE, "core", "pods pods/attach pods/exec pods/portforward pods/proxy"),
    rule("create", "core", "pods/eviction"),
    rule(
        _WRITE,
        "core",
        "configmaps events persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets"
        " serviceaccounts services services/proxy",
    ),
    rule("create", "core", "serviceaccounts/token"),
    rule(
        _WRITE,
        "apps",
        "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale statefulsets"
        " statefulsets/scale",
    ),
    rule(_WRITE, "autoscaling", "horizontalpodautoscalers"),
    rule(_WRITE, "batch", "cronjobs jobs"),
    rule(
        _WRITE,
        "extensions",
        "daemonsets deployments deployments/rollback deployments/scale ingresses networkpolicies replicasets"
        " replicasets/scale replicationcontrollers/scale",
    ),
    rule(_WRITE, "policy", "poddisruptionbudgets"),
    rule(_WRITE, "networking.k8s.io", "ingresses networkpolicies"),
    rule(f"{_WRITE} {_READ}", "coordination.k8s.io", "leases"),
    rule(_WRITE, "resource.k8s.io", "resourceclaims resourceclaimtemplates"),
)
ADMIN = (
    rule("create", "authorization.k8s.io", "localsubjectaccessreviews"),
    rule(f"{_WRITE} {_READ}", GROUP, "rolebindings roles"),
)

SCHEDULER = (
    EVENTS,
    rule("create", "coordination.k8s.io", "leases"),
    rule("get list update watch", "coordination.k8s.io", "leases", "kube-scheduler"),
    rule(f"{_WRITE} {_READ}", "coordination.k8s.io", "leasecandidates"),
    rule(_READ, "core", "nodes"),
    rule(f"delete {_READ}", "core", "pods"),
    rule("create", "core", "bindings pods/binding"),
    rule("patch update", "core", "pods/status"),
    rule(_READ, "core", "replicationcontrollers services"),
    rule(_READ, "apps extensions", "replicasets"),
    rule(_READ, "apps", "statefulsets"),
    rule(_READ, "policy", "poddisruptionbudgets"),
    rule(_READ, "core", "persistentvolumeclaims persistentvolumes"),
    *DELEGATED,
    rule(_READ, "storage.k8s.io", "csinodes"),
    rule(_READ, "storage.k8s.io", "volumeattachments"),
    rule(_READ, "core", "namespaces"),
    rule(_READ, "storage.k8s.io", "csidrivers"),
    rule(_READ, "storage.k8s.io", "csistoragecapacities"),
    rule(_READ, "resource.k8s.io", "deviceclasses"),
    rule(f"create delete patch update {_READ}", "resource.k8s.io", "resourceclaims"),  # those for extended resources
    rule(f"patch update {_READ}", "resource.k8s.io", "resourceclaims/status"),
    rule(f"patch update {_READ}", "core", "pods/finalizers"),
    rule(_READ, "resource.k8s.io", "resourceslices"),
    rule(_READ, "resource.k8s.io", "devicetaintrules"),
)

# The manager itself reads everything for the informers that all controllers share, and makes the accounts by which they write:
# see --use-service-account-credentials. Nothing here may impersonate, escalate or bind.
CONTROLLER_MANAGER = (
    EVENTS,
    rule("create", "coordination.k8s.io", "leases"),
    rule("get update", "coordination.k8s.io", "leases", "kube-controller-manager"),
    rule("create", "core", "secrets serviceaccounts"),
    rule("delete", "core", "secrets"),
    rule("get", "core", "configmaps namespaces secrets serviceaccounts"),
    rule("update", "core", "secrets serviceaccounts"),
    *DELEGATED,
    rule("list watch", "*", "*"),
    rule("create", "core", "serviceaccounts/token"),
)

# What every node may do alike. The Node authorizer grants it, object by object where it can; the role system:node shows it and
# is bound to nobody. Admission (NodeRestriction) narrows the writes.
NODE = (
    rule("create", "authentication.k8s.io", "tokenreviews"),
    rule("create", "authorization.k8s.io", "localsubjectaccessreviews subjectaccessreviews"),
    rule(_READ, "core", "services"),
    rule(f"create {_READ}", "core", "nodes"),
    rule("patch update", "core", "nodes/status"),
    rule("patch update", "core", "nodes"),
    EVENTS,  # upstream's kubelet still writes the core group's alone; ours those of events.k8s.io
    rule(_READ, "core", "pods"),
    rule("create delete", "core", "pods"),
    rule("patch update", "core", "pods/status"),
    rule("create", "core", "pods/eviction"),
    rule(_READ, "core", "configmaps secrets"),
    rule("get", "core", "persistentvolumeclaims persistentvolumes"),
    rule("get", "core", "endpoints"),
    rule(f"create {_READ}", "certificates.k8s.io", "certificatesigningrequests"),
    rule("create delete get patch update", "coordination.k8s.io", "leases"),
    rule("get", "storage.k8s.io", "volumeattachments"),
    rule("create", "core", "serviceaccounts/token"),
    rule("get patch update", "core", "persistentvolumeclaims/status"),
    rule(_READ, "storage.k8s.io", "csidrivers"),
    rule("create delete get patch update", "storage.k8s.io", "csinodes"),
    rule(_READ, "node.k8s.io", "runtimeclasses"),
    rule("get", "resource.k8s.io", "resourceclaims"),
    rule("deletecollection", "resource.k8s.io", "resourceslices"),
    rule(_READ, "certificates.k8s.io", "clustertrustbundles"),
    rule("get", "core", "serviceaccounts"),
)

_CSR = "certificates.k8s.io"
CLUSTER_ROLES: dict[str, tuple[Rule, ...]] = {
    "cluster-admin": (rule("*", "*", "*"), path_rule("*", "*")),
    "system:basic-user": (
        rule("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
        rule("create", "authentication.k8s.io", "selfsubjectreviews"),
    ),
    "system:discovery": (path_rule("get", f"/api /api/* /apis /apis/* /openapi /openapi/* {_HEALTH}"),),
    "system:public-info-viewer": (path_rule("get", _HEALTH),),
    "system:monitoring": (
        path_rule("get", "/healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/*"),
        path_rule("get", "/flagz"),
        path_rule("get", "/statusz"),
    ),
    "system:service-account-issuer-discovery": (
        path_rule("get", "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/"),
    ),
    "system:auth-delegator": DELEGATED,
    "system:kube-scheduler": SCHEDULER,
    "system:kube-controller-manager": CONTROLLER_MANAGER,
    "system:node": NODE,
    "system:node-proxier": (
        rule("list watch", "core", "endpoints services"),
        rule(_READ, "core", "nodes"),
        EVENTS,
        rule("list watch", "networking.k8s.io", "servicecidrs"),
        rule("list watch", "discovery.k8s.io", "endpointslices"),
    ),
    "system:kubelet-api-admin": (
        rule(_READ, "core", "nodes"),
        rule("proxy", "core", "nodes"),
        rule("*", "core", "nodes/log nodes/metrics nodes/proxy nodes/stats"),
        rule("*", "core", "nodes/configz nodes/healthz nodes/pods"),
    ),
    "system:node-bootstrapper": (rule(f"create {_READ}", _CSR, "certificatesigningrequests"),),
    "system:kube-dns": (rule("list watch", "core", "endpoints services"),),
    "system:kube-aggregator": (rule(_READ, "core", "endpoints services"),),
    "system:heapster": (rule(_READ, "core", "events namespaces nodes pods"), rule(_READ, "extensions", "deployments")),
    "system:node-problem-detector": (rule("get", "core", "nodes"), rule("patch", "core", "nodes/status"), EVENTS),
    "system:persistent-volume-provisioner": (
        rule(f"create delete {_READ}", "core", "persistentvolumes"),
        rule(f"update {_READ}", "core", "persistentvolumeclaims"),
        rule(_READ, "storage.k8s.io", "storageclasses"),
        rule("watch", "core", "events"),
        EVENTS,
    ),
    "system:volume-scheduler": (
        rule(f"patch update {_READ}", "core", "persistentvolumes"),
        rule(_READ, "storage.k8s.io", "storageclasses"),
        rule(f"patch update {_READ}", "core", "persistentvolumeclaims"),
    ),
    "system:cluster-trust-bundle-discovery": (rule(_READ, _CSR, "clustertrustbundles"),),
    f"system:{_CSR}:certificatesigningrequests:nodeclient": (rule("create", _CSR, "certificatesigningrequests/nodeclient"),),
    f"system:{_CSR}:certificatesigningrequests:selfnodeclient": (
        rule("create", _CSR, "certificatesigningrequests/selfnodeclient"),
    ),
    **{
        f"system:{_CSR}:{signer}-approver": (rule("approve", _CSR, "signers", f"kubernetes.io/{signer}"),)
        for signer in ("kube-apiserver-client", "kube-apiserver-client-kubelet", "kubelet-serving", "legacy-unknown")
    },
    # Ours: kubelets that route to one another's pods (--pod-routes=direct) read the addresses of all nodes. Who has no need of
    # it annotates the binding with autoupdate "false" and takes its subject away.
    "pybernetes:pod-routes": (rule(_READ, "core", "nodes"),),
}

# role to (kind, name) of its subjects; a service account is kube-system's
CLUSTER_ROLE_BINDINGS: dict[str, tuple[tuple[str, str], ...]] = {
    "cluster-admin": (("Group", "system:masters"),),
    "system:monitoring": (("Group", "system:monitoring"),),
    "system:discovery": (("Group", "system:authenticated"),),
    "system:basic-user": (("Group", "system:authenticated"),),
    "system:public-info-viewer": (("Group", "system:authenticated"), ("Group", "system:unauthenticated")),
    "system:node-proxier": (("User", "system:kube-proxy"),),
    "system:kube-controller-manager": (("User", "system:kube-controller-manager"),),
    "system:kube-dns": (("ServiceAccount", "kube-dns"),),
    "system:kube-scheduler": (("User", "system:kube-scheduler"),),
    "system:volume-scheduler": (("User", "system:kube-scheduler"),),
    "system:node": (),
    "system:service-account-issuer-discovery": (("Group", "system:serviceaccounts"),),
    "system:cluster-trust-bundle-discovery": (("Group", "system:serviceaccounts"),),
    "pybernetes:pod-routes": (("Group", "system:nodes"),),
    # Ours: who the API server is to kubelets. Upstream's installers put it into a group of administrators instead.
    "system:kubelet-api-admin": (("User", "kube-apiserver-kubelet-client"),),
}
_USER_ROLES = (("view", VIEW, "edit"), ("edit", EDIT, "admin"), ("admin", ADMIN, ""))


def roles() -> list[Object]:
    """Every ClusterRole. ``admin``, ``edit`` and ``view`` aggregate, so that others can add to them by a label."""
    made = [_role(name, rules) for name, rules in CLUSTER_ROLES.items()]
    for name, rules, into in _USER_ROLES:
        labels = {f"{_AGGREGATE}{name}": "true"}
        made.append(_role(f"system:aggregate-to-{name}", rules, labels))
        selectors = [{"matchLabels": labels}]
        aggregate = {f"{_AGGREGATE}{into}": "true"} if into else {}
        made.append({**_role(name, None, aggregate), "aggregationRule": {"clusterRoleSelectors": selectors}})
    return made + [_role(controller_policy.role_of(name), rules) for name, rules in controller_policy.RULES.items()]


def metrics_reader() -> Object:
    """With the resource metrics API: who may view a namespace may see what its pods use. The metrics server brings the same."""
    labels = {f"{_AGGREGATE}{into}": "true" for into in ("admin", "edit", "view")}
    return _role("system:aggregated-metrics-reader", (rule(_READ, "metrics.k8s.io", "nodes pods"),), labels)


def bindings() -> list[Object]:
    made = [_binding(name, subjects) for name, subjects in CLUSTER_ROLE_BINDINGS.items()]
    accounts = controller_policy.RULES
    return made + [_binding(controller_policy.role_of(name), (("ServiceAccount", name),)) for name in accounts]


def namespaced() -> list[tuple[str, Object]]:
    """Roles and RoleBindings in kube-system and kube-public, each after its resource's name."""
    made: list[tuple[str, Object]] = []
    for namespace, name, rules in namespace_policy.ROLES:
        made.append(("roles", _placed(_role(name, rules), "Role", namespace)))
    for namespace, name, role, subjects in namespace_policy.BINDINGS:
        binding = _placed(_binding(role, subjects), "RoleBinding", namespace)
        binding["metadata"]["name"] = name
        binding["roleRef"]["kind"] = "Role"
        made.append(("rolebindings", binding))
    return made


def _placed(obj: Object, kind: str, namespace: str) -> Object:
    obj["kind"] = kind
    obj["metadata"]["namespace"] = namespace
    return obj


def _role(name: str, rules: tuple[Rule, ...] | None, labels: dict[str, str] | None = None) -> Object:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": {**_LABELS, **(labels or {})}, "annotations": dict(_ANNOTATIONS)},
        "rules": [rule_value(each) for each in rules] if rules is not None else None,
    }


def _binding(role: str, subjects: tuple[tuple[str, str], ...]) -> Object:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": role, "labels": dict(_LABELS), "annotations": dict(_ANNOTATIONS)},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [_subject(*each) for each in subjects],
    }


def _subject(kind: str, name: str) -> Object:
    if kind == "ServiceAccount":
        return {"kind": kind, "name": name, "namespace": "kube-system"}
    return {"apiGroup": GROUP, "kind": kind, "name": name}
