"""Where ours answers otherwise than v1.20.2, and why: upstream has changed since, or we do something differently on purpose.

Every entry must explain a difference that is there, and every difference needs one: ``test_rbac_parity`` fails otherwise.
"""

from collections.abc import Callable
from dataclasses import dataclass

from controlplane.apiserver.authorization import controller_policy
from controlplane.apiserver.authorization.rules import Rule
from tests.security.rbac_parity.questions import Question

_POLICY = "plugin/pkg/auth/authorizer/rbac/bootstrappolicy of kubernetes/kubernetes"
_NEWER = {
    "device-taint-eviction-controller": "KEP-5055",
    "ephemeral-volume-controller": "KEP-1698, on by default after v1.20",
    "legacy-service-account-token-cleaner": "KEP-2799",
    "resource-claim-controller": "KEP-4381",
    "selinux-warning-controller": "KEP-1710",
    "service-cidrs-controller": "KEP-1880",
    "ttl-after-finished-controller": "KEP-592, on by default after v1.20",
    "validatingadmissionpolicy-status-controller": "KEP-3488",
    "volumeattributesclass-protection-controller": "KEP-3751",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """``covers`` says which questions are answered the other way round by now."""

    why: str
    covers: Callable[[Question], bool]


def _newer(name: str) -> Difference:
    why = f"this controller came with {_NEWER[name]}; its role is that of {_POLICY}/controller_policy.go"
    return Difference(why, lambda asked: asked.subject == f"controller:{name}" and _upstream_allows(name, asked))


def _upstream_allows(name: str, asked: Question) -> bool:
    return any(_speaks_of(rule, asked) and asked.verb in rule.verbs for rule in controller_policy.UPSTREAM[name])


def _speaks_of(rule: Rule, asked: Question) -> bool:
    return asked.group in rule.groups and asked.resource in rule.resources


def _either(asked: Question) -> bool:
    """Ours may patch what upstream's may update, and the other way round."""
    name = asked.subject.removeprefix("controller:")
    other = {"patch": "update", "update": "patch"}.get(asked.verb, "")
    rules = controller_policy.UPSTREAM.get(name, ())
    allowed = {verb for rule in rules if _speaks_of(rule, asked) for verb in rule.verbs}
    return asked.subject.startswith("controller:") and other in allowed and asked.verb not in allowed


def _is(subject: str, verbs: str, group: str, resource: str) -> Callable[[Question], bool]:
    def covers(asked: Question) -> bool:
        return (asked.subject, asked.group, asked.resource) == (subject, group, resource) and asked.verb in verbs.split()

    return covers


def _since(subject: str, verbs: str, group: str, resource: str, why: str) -> Difference:
    """A rule that the role of ``subject`` has by now."""

    def covers(asked: Question) -> bool:
        return (asked.subject, asked.group, asked.resource) == (subject, group, resource) and asked.verb in verbs.split()

    return Difference(f"{why}; {_POLICY}", covers)


def _watches(asked: Question) -> bool:
    name = asked.subject.removeprefix("controller:")
    if asked.verb != "watch" or not asked.subject.startswith("controller:") or name in _NEWER:
        return False
    return _upstream_allows(name, asked)


_LEASES, _EVERY = "coordination.k8s.io", "get list watch create update patch delete deletecollection"
DIFFERENCES = (
    *(_newer(name) for name in _NEWER),
    Difference("ours: who may update may patch, and the other way round (controller_policy)", _either),
    Difference("controllers may watch what they list, kubernetes/kubernetes#130405", _watches),
    _since(
        "controller:statefulset-controller", "delete update", "", "persistentvolumeclaims", "claims are deleted at wish, KEP-1847"
    ),
    _since("controller:job-controller", "patch", "batch", "jobs", "jobs are patched as well as updated"),
    _since("holder:edit", _EVERY, _LEASES, "leases", "whoever edits may elect leaders"),
    _since("holder:admin", _EVERY, _LEASES, "leases", "whoever edits may elect leaders"),
    _since("holder:system:kube-scheduler", "list watch", _LEASES, "leases", "coordinated leader election, KEP-4355"),
    _since("holder:system:kube-scheduler", "get list watch", "", "namespaces", "affinity by labels of namespaces, KEP-2249"),
    _since("scheduler", "get list watch", "storage.k8s.io", "volumeattachments", "the volumes of a node are counted"),
    _since("controller-manager", "update", _LEASES, "leases", "election by leases of kube-system, not by endpoints"),
)
