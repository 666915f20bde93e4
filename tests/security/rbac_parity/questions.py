"""The questions: who (the subjects of upstream's default bindings, and one holder of each default role) may do what.

A fixed choice: the same for whoever runs it, so that the answers of another server can be kept in a file.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from controlplane.apiserver.authorization import bootstrap_policy, controller_policy

_AUTHENTICATED = ("system:authenticated",)
_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
_PER_SUBJECT = 22

SUBJECTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "anonymous": ("system:anonymous", ("system:unauthenticated",)),
    "somebody": ("somebody", _AUTHENTICATED),
    "administrator": ("admin", ("system:masters", *_AUTHENTICATED)),
    "monitoring": ("prometheus", ("system:monitoring", *_AUTHENTICATED)),
    "scheduler": ("system:kube-scheduler", _AUTHENTICATED),
    "controller-manager": ("system:kube-controller-manager", _AUTHENTICATED),
    "proxy": ("system:kube-proxy", _AUTHENTICATED),
    "node": ("system:node:n1", ("system:nodes", *_AUTHENTICATED)),
    "service-account": (
        "system:serviceaccount:default:a",
        ("system:serviceaccounts", "system:serviceaccounts:default", *_AUTHENTICATED),
    ),
    "bootstrapper": ("system:bootstrap:abcdef", ("system:bootstrappers", *_AUTHENTICATED)),
}
HELD = (
    *(name for name in bootstrap_policy.CLUSTER_ROLES if name.startswith("system:")),
    "view",
    "edit",
    "admin",
    "system:aggregate-to-view",
    "system:aggregate-to-edit",
    "system:aggregate-to-admin",
)
RESOURCES = (
    *((group, resource) for group in ("",) for resource in (
        "pods", "pods/log", "pods/exec", "pods/attach", "pods/portforward", "pods/proxy", "pods/status", "pods/eviction",
        "pods/binding", "bindings", "secrets", "configmaps", "services", "services/proxy", "services/status", "endpoints",
        "events",
        "nodes", "nodes/status", "nodes/proxy", "nodes/stats", "nodes/log", "nodes/metrics", "namespaces", "namespaces/finalize",
        "namespaces/status", "serviceaccounts", "serviceaccounts/token", "replicationcontrollers", "replicationcontrollers/scale",
        "persistentvolumes", "persistentvolumeclaims", "persistentvolumeclaims/status", "resourcequotas", "resourcequotas/status",
        "limitranges", "podtemplates",
    )),
    *(("apps", resource) for resource in (
        "deployments", "deployments/scale", "deployments/status", "replicasets", "statefulsets", "daemonsets",
        "controllerrevisions",
    )),
    ("batch", "jobs"), ("batch", "jobs/status"), ("batch", "cronjobs"),
    ("autoscaling", "horizontalpodautoscalers"),
    ("policy", "poddisruptionbudgets"), ("policy", "poddisruptionbudgets/status"),
    ("networking.k8s.io", "ingresses"), ("networking.k8s.io", "networkpolicies"), ("networking.k8s.io", "ingressclasses"),
    ("discovery.k8s.io", "endpointslices"), ("events.k8s.io", "events"),
    ("coordination.k8s.io", "leases"),
    ("rbac.authorization.k8s.io", "roles"), ("rbac.authorization.k8s.io", "rolebindings"),
    ("rbac.authorization.k8s.io", "clusterroles"), ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("authorization.k8s.io", "subjectaccessreviews"), ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"), ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("certificates.k8s.io", "certificatesigningrequests"), ("certificates.k8s.io", "certificatesigningrequests/approval"),
    ("certificates.k8s.io", "certificatesigningrequests/nodeclient"),
    ("certificates.k8s.io", "certificatesigningrequests/selfnodeclient"),
    ("storage.k8s.io", "storageclasses"), ("storage.k8s.io", "csinodes"), ("storage.k8s.io", "csidrivers"),
    ("storage.k8s.io", "volumeattachments"), ("node.k8s.io", "runtimeclasses"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("apiextensions.k8s.io", "customresourcedefinitions"), ("apiregistration.k8s.io", "apiservices"),
)  # fmt: skip
PATHS = (
    "/", "/api", "/apis", "/apis/apps/v1", "/openapi/v2", "/version", "/healthz", "/healthz/etcd", "/livez", "/readyz",
    "/metrics", "/logs", "/openid/v1/jwks", "/.well-known/openid-configuration", "/debug/pprof",
)  # fmt: skip


@dataclass(frozen=True, slots=True, order=True)
class Question:
    subject: str
    verb: str
    group: str
    resource: str  # with a subresource, or a path
    namespace: str = ""
    name: str = ""

    def spec(self) -> dict[str, Any]:
        """The spec of a SubjectAccessReview."""
        user, groups = who(self.subject)
        spec: dict[str, Any] = {"user": user, "groups": list(groups)}
        if self.resource.startswith("/"):
            return {**spec, "nonResourceAttributes": {"path": self.resource, "verb": self.verb}}
        resource, _, subresource = self.resource.partition("/")
        what = {
            "verb": self.verb,
            "group": self.group,
            "resource": resource,
            "subresource": subresource,
            "namespace": self.namespace,
            "name": self.name,
        }
        return {**spec, "resourceAttributes": {key: value for key, value in what.items() if value}}


def who(subject: str) -> tuple[str, tuple[str, ...]]:
    if subject.startswith("controller:"):
        account = f"system:serviceaccount:kube-system:{subject.removeprefix('controller:')}"
        return account, ("system:serviceaccounts", "system:serviceaccounts:kube-system", *_AUTHENTICATED)
    if subject.startswith("holder:"):
        return subject, ()
    return SUBJECTS[subject]


def subjects() -> list[str]:
    controllers = [f"controller:{name}" for name in (*controller_policy.UPSTREAM, "token-cleaner", "bootstrap-signer")]
    return [*SUBJECTS, *(f"holder:{role}" for role in HELD), *controllers]


def questions() -> list[Question]:
    found: set[Question] = set()
    for subject in subjects():
        found |= set(_chosen(subject))
    return sorted(found)


def _chosen(subject: str) -> Iterator[Question]:
    """Of all that could be asked about a subject, the ones whose hash is smallest; half of them about what its role speaks of."""
    every = [
        Question(subject, verb, group, resource, *place)
        for group, resource in RESOURCES
        for verb in _verbs(resource)
        for place in _places(resource)
    ]
    every += [Question(subject, verb, "", path) for path in PATHS for verb in ("get", "post")]
    spoken = _spoken_of(subject)
    near = [each for each in every if (each.group, each.resource) in spoken]
    yield from sorted(near, key=_order)[: _PER_SUBJECT // 2]
    yield from sorted(every, key=_order)[: _PER_SUBJECT // 2]


def _order(question: Question) -> bytes:
    return hashlib.sha256(repr(question).encode()).digest()


def _verbs(resource: str) -> tuple[str, ...]:
    return ("create", "get", "update") if "/" in resource or resource.endswith("reviews") else _VERBS


def _places(resource: str) -> tuple[tuple[str, str], ...]:
    if resource == "leases":
        return ("kube-system", "kube-scheduler"), ("kube-node-lease", "n1"), ("default", "")
    if resource == "configmaps":
        return ("kube-system", "extension-apiserver-authentication"), ("kube-public", "cluster-info"), ("default", "")
    if resource.startswith("nodes"):
        return ("", "n1"), ("", "")
    return (("default", ""),)


def _spoken_of(subject: str) -> set[tuple[str, str]]:
    name = subject.partition(":")[2]
    if subject.startswith("controller:"):
        rules = controller_policy.UPSTREAM.get(name, ())
    elif subject.startswith("holder:"):
        extra = {"view": bootstrap_policy.VIEW, "edit": bootstrap_policy.EDIT, "admin": bootstrap_policy.ADMIN}
        rules = bootstrap_policy.CLUSTER_ROLES.get(name) or extra.get(name.removeprefix("system:aggregate-to-"), ())
    else:
        by_name = {"scheduler": "system:kube-scheduler", "controller-manager": "system:kube-controller-manager"}
        by_name |= {"node": "system:node", "proxy": "system:node-proxier"}
        rules = bootstrap_policy.CLUSTER_ROLES.get(by_name.get(subject, ""), ())
    return {(group, resource) for rule in rules for group in rule.groups for resource in rule.resources}
