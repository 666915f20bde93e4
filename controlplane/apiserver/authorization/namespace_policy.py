"""The Roles and RoleBindings of kube-system and kube-public from the start. Pure data, upstream's (``namespace_policy.go``)."""

from controlplane.apiserver.authorization.rules import Rule, rule

_READ = "get list watch"
_EVENTS = rule("create patch update", "core events.k8s.io", "events")
_LOCKING = (
    rule("create get list update watch", "coordination.k8s.io", "leases"),
    rule("create get list update watch", "coordination.k8s.io", "leasecandidates"),
)
_SYSTEM, _PUBLIC = "kube-system", "kube-public"
_SIGNER, _READER = "system:controller:bootstrap-signer", "extension-apiserver-authentication-reader"
_MANAGER, _SCHEDULER = "system:kube-controller-manager", "system:kube-scheduler"

# namespace, name, rules
ROLES: tuple[tuple[str, str, tuple[Rule, ...]], ...] = (
    (_SYSTEM, _READER, (rule(_READ, "core", "configmaps", "extension-apiserver-authentication"),)),
    (_SYSTEM, "system::leader-locking-kube-controller-manager", _LOCKING),
    (_SYSTEM, "system::leader-locking-kube-scheduler", _LOCKING),
    (_SYSTEM, _SIGNER, (rule(_READ, "core", "secrets"),)),
    (_SYSTEM, "system:controller:cloud-provider", (rule(f"create {_READ}", "core", "configmaps"),)),
    (_SYSTEM, "system:controller:token-cleaner", (rule(f"delete {_READ}", "core", "secrets"), _EVENTS)),
    (
        _PUBLIC,
        _SIGNER,
        (
            rule(_READ, "core", "configmaps"),
            rule("patch update", "core", "configmaps", "cluster-info"),  # patch: as in ``controller_policy``
            _EVENTS,
        ),
    ),
)

# namespace, name, role, subjects
BINDINGS: tuple[tuple[str, str, str, tuple[tuple[str, str], ...]], ...] = (
    (_SYSTEM, f"system::{_READER}", _READER, (("User", _MANAGER), ("User", _SCHEDULER))),
    (
        _SYSTEM,
        "system::leader-locking-kube-controller-manager",
        "system::leader-locking-kube-controller-manager",
        (("User", _MANAGER), ("ServiceAccount", "kube-controller-manager"), ("ServiceAccount", "leader-election-controller")),
    ),
    (
        _SYSTEM,
        "system::leader-locking-kube-scheduler",
        "system::leader-locking-kube-scheduler",
        (("User", _SCHEDULER), ("ServiceAccount", "kube-scheduler")),
    ),
    (_SYSTEM, _SIGNER, _SIGNER, (("ServiceAccount", "bootstrap-signer"),)),
    (_PUBLIC, _SIGNER, _SIGNER, (("ServiceAccount", "bootstrap-signer"),)),
    (_SYSTEM, "system:controller:cloud-provider", "system:controller:cloud-provider", (("ServiceAccount", "cloud-provider"),)),
    (_SYSTEM, "system:controller:token-cleaner", "system:controller:token-cleaner", (("ServiceAccount", "token-cleaner"),)),
)
