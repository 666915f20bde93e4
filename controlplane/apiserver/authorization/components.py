"""What the cluster's own components may do, by the user names and groups that upstream gives them. Explicit tables.

These are upstream's bootstrap roles for the named identities, plus what everybody may read (discovery, health, themselves).
A certificate alone allows nothing: its CN or O must be in a table.
"""

from collections.abc import Mapping

from controlplane.apiserver.authentication.interface import UserInfo
from controlplane.apiserver.authorization.interface import Attributes, Decision
from controlplane.apiserver.authorization.rules import ALL, Rule, allowed_by

_READ = ("get", "list", "watch")
_EVENTS = Rule(("create", "patch", "update"), ("", "events.k8s.io"), ("events",))
DELEGATED = (
    Rule(("create",), ("authentication.k8s.io",), ("tokenreviews",)),
    Rule(("create",), ("authorization.k8s.io",), ("subjectaccessreviews",)),
)

# single checks below these (/readyz/etcd) are for system:monitoring, as upstream has it
HEALTH = Rule(("get",), paths=("/healthz", "/livez", "/readyz", "/version", "/version/"))
DISCOVERY = Rule(("get",), paths=("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"))
SELF_REVIEWS = Rule(
    ("create",),
    ("authorization.k8s.io", "authentication.k8s.io"),
    ("selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"),
)
ISSUER = Rule(
    ("get",),
    paths=("/.well-known/openid-configuration", "/.well-known/openid-configuration/", "/openid/v1/jwks", "/openid/v1/jwks/"),
)

SCHEDULER = (
    _EVENTS,
    *DELEGATED,
    Rule(
        _READ, ("",), ("nodes", "namespaces", "services", "replicationcontrollers", "persistentvolumeclaims", "persistentvolumes")
    ),
    Rule((*_READ, "delete"), ("",), ("pods",)),
    Rule(("create",), ("",), ("bindings", "pods/binding")),
    Rule(("patch", "update"), ("",), ("pods/status",)),
    Rule(("patch", "update"), ("",), ("persistentvolumeclaims", "persistentvolumes")),
    Rule(_READ, ("apps",), ("replicasets", "statefulsets")),
    Rule(_READ, ("policy",), ("poddisruptionbudgets",)),
    Rule(_READ, ("scheduling.k8s.io",), ("priorityclasses",)),
    Rule(_READ, ("storage.k8s.io",), ALL),
    Rule((*_READ, "create", "update", "patch"), ("coordination.k8s.io",), ("leases",)),
)

# The garbage collector and the namespace controller work on every kind there is, present or future; upstream's roles for
# them say the same. Only what a controller makes may be created: no exec into pods, no roles. Nothing here may impersonate,
# escalate or bind.
CONTROLLER_MANAGER = (
    _EVENTS,
    *DELEGATED,
    Rule((*_READ, "update", "patch", "delete", "deletecollection"), ALL, ALL),
    Rule(
        ("create",),
        ("",),
        (
            "configmaps",
            "endpoints",
            "persistentvolumeclaims",
            "persistentvolumes",
            "pods",
            "pods/eviction",
            "secrets",
            "serviceaccounts",
            "serviceaccounts/token",
        ),
    ),
    Rule(("create",), ("apps",), ("controllerrevisions", "replicasets")),
    Rule(("create",), ("batch",), ("jobs",)),
    Rule(("create",), ("coordination.k8s.io",), ("leases",)),
    Rule(("create",), ("discovery.k8s.io",), ("endpointslices",)),
    Rule(("create",), ("networking.k8s.io",), ("ipaddresses", "servicecidrs")),
    Rule(("create",), ("resource.k8s.io",), ("resourceclaims",)),
    Rule(("create",), ("storage.k8s.io",), ("storageclasses", "volumeattachments")),  # the class of local-path volumes
    Rule(("approve", "sign"), ("certificates.k8s.io",), ("signers",)),  # of the four signers that controllers stand for
    Rule(("get",), paths=ALL),
)

PROXY = (
    _EVENTS,
    Rule(_READ, ("",), ("services", "endpoints", "nodes")),
    Rule(_READ, ("discovery.k8s.io",), ("endpointslices",)),
    Rule(_READ, ("networking.k8s.io",), ("servicecidrs", "networkpolicies")),
    Rule(_READ, ("",), ("namespaces", "pods")),
)

# Admission (NodeRestriction) narrows the writes to the node's own objects; secrets, config maps and tokens are for ``node``.
NODE = (
    _EVENTS,
    *DELEGATED,
    Rule(_READ, ("",), ("services", "endpoints")),
    Rule((*_READ, "create", "update", "patch"), ("",), ("nodes",)),
    Rule(("update", "patch"), ("",), ("nodes/status",)),
    Rule((*_READ, "create", "delete"), ("",), ("pods",)),
    Rule(("update", "patch"), ("",), ("pods/status",)),
    Rule(("create",), ("",), ("pods/eviction",)),
    Rule(_READ, ("",), ("persistentvolumeclaims", "persistentvolumes")),
    Rule(("get",), ("",), ("serviceaccounts",)),
    Rule(("get", "create", "update", "patch", "delete"), ("coordination.k8s.io",), ("leases",), namespaces=("kube-node-lease",)),
    Rule((*_READ, "create"), ("certificates.k8s.io",), ("certificatesigningrequests",)),
    Rule(_READ, ("storage.k8s.io",), ("csidrivers", "csinodes", "volumeattachments")),
    Rule(("create", "update", "patch", "delete"), ("storage.k8s.io",), ("csinodes",)),
    Rule(_READ, ("node.k8s.io",), ("runtimeclasses",)),
    Rule(_READ, ("discovery.k8s.io",), ("endpointslices",)),
)

# What a joining node may do before it has a certificate of its own.
BOOTSTRAPPERS = (Rule(("create", "get", "list", "watch"), ("certificates.k8s.io",), ("certificatesigningrequests",)),)

DNS = (
    Rule(_READ, ("",), ("endpoints", "services", "pods", "namespaces", "nodes")),
    Rule(_READ, ("discovery.k8s.io",), ("endpointslices",)),
)

# How the API server's own client certificate may be used against kubelets (they ask by SubjectAccessReview).
KUBELET_API = (
    Rule(
        ALL,
        ("",),
        (
            "nodes/proxy",
            "nodes/stats",
            "nodes/log",
            "nodes/spec",
            "nodes/metrics",
            "nodes/configz",
            "nodes/healthz",
            "nodes/pods",
        ),
    ),
)

METRICS = (Rule(("get",), paths=("/metrics", "/metrics/*", "/livez/*", "/readyz/*", "/healthz/*")),)

BY_USER: Mapping[str, tuple[Rule, ...]] = {
    "system:kube-scheduler": SCHEDULER,
    "system:kube-controller-manager": CONTROLLER_MANAGER,
    "system:kube-proxy": PROXY,
    "system:kube-dns": DNS,
    "kube-apiserver-kubelet-client": KUBELET_API,
    "system:kube-apiserver-kubelet-client": KUBELET_API,
}
BY_GROUP: Mapping[str, tuple[Rule, ...]] = {
    "system:nodes": NODE,
    "system:monitoring": METRICS,
    "system:bootstrappers": BOOTSTRAPPERS,
    "system:authenticated": (HEALTH, DISCOVERY, SELF_REVIEWS),
    "system:unauthenticated": (HEALTH,),
    "system:serviceaccounts": (ISSUER,),
}


class ComponentAuthorizer:
    """Allows by user name and by group; never denies, so that authorizers after it may allow more."""

    def __init__(
        self, by_user: Mapping[str, tuple[Rule, ...]] = BY_USER, by_group: Mapping[str, tuple[Rule, ...]] = BY_GROUP
    ) -> None:
        self._by_user, self._by_group = by_user, by_group

    def rules_for(self, user: UserInfo, namespace: str) -> list[Rule]:
        """Everything the user may do by these tables, for SelfSubjectRulesReview."""
        rules = list(self._by_user.get(user.name, ()))
        for group in user.groups:
            rules += self._by_group.get(group, ())
        return [rule for rule in rules if not rule.namespaces or namespace in rule.namespaces]

    async def authorize(self, attributes: Attributes) -> tuple[Decision, str]:
        user = attributes.user
        if allowed_by(self._by_user.get(user.name, ()), attributes):
            return Decision.ALLOW, f'built-in rules of user "{user.name}"'
        for group in user.groups:
            if group in self._by_group and allowed_by(self._by_group[group], attributes):
                return Decision.ALLOW, f'built-in rules of group "{group}"'
        return Decision.NO_OPINION, ""
