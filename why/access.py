"""Why a user may not do something: the rule that is missing, the grants that come near, the roles that would do.

Called by ``cli.why`` for ``can-not``. RBAC's own evaluation does the judging: grants are compiled and rules are held against
the request by the functions of the authorizer. Authorizers besides RBAC cannot be seen from the API.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from apimachinery.meta import Object, name_of, namespace_of
from controlplane.apiserver.authentication.interface import ALL_AUTHENTICATED, UserInfo
from controlplane.apiserver.authorization.interface import Attributes
from controlplane.apiserver.authorization.rbac import Grant, compile_grants, rules_of
from controlplane.apiserver.authorization.rules import Rule
from why.cause import Cause, Explanation, State
from why.snapshot import Snapshot
from why.words import few

KINDS_READ = ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
_MASTERS = "system:masters"
_ACCOUNT = "system:serviceaccount:"
_SHOWN = 4


@dataclass(frozen=True, slots=True)
class _Roles:
    """The snapshot as RBAC's ``RoleSource``."""

    snapshot: Snapshot
    generation: int = 0

    def roles(self) -> Iterable[Object]:
        return self.snapshot.all("Role")

    def cluster_roles(self) -> Iterable[Object]:
        return self.snapshot.all("ClusterRole")

    def role_bindings(self) -> Iterable[Object]:
        return self.snapshot.all("RoleBinding")

    def cluster_role_bindings(self) -> Iterable[Object]:
        return self.snapshot.all("ClusterRoleBinding")


def user_of(name: str, groups: Iterable[str] = ()) -> UserInfo:
    """With the groups that the server itself adds to a user or a service account."""
    given = [*groups]
    if name.startswith(_ACCOUNT):
        namespace = name.removeprefix(_ACCOUNT).partition(":")[0]
        given += ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    if name != "system:anonymous":
        given.append(ALL_AUTHENTICATED)
    return UserInfo(name, groups=tuple(dict.fromkeys(given)))


def explain(snapshot: Snapshot, asked: Attributes) -> Explanation:
    """WELL when RBAC allows it, UNKNOWN when roles or bindings may not be read, else the reasons."""
    user = asked.user
    subject = f"user {user.name}"
    if _MASTERS in user.groups:
        return Explanation(subject, "", State.WELL, f"may {_doing(asked)}: the group {_MASTERS} may do everything")
    grants = _grants(snapshot, user)
    for grant in grants:
        if _covers(grant, asked) and any(rule.allows(asked) for rule in grant.rules):
            return Explanation(subject, "", State.WELL, f"may {_doing(asked)}: {grant.binding} gives {grant.role}")
    unread = [kind for kind in KINDS_READ if not snapshot.covers(kind, "" if kind.startswith("Cluster") else asked.namespace)]
    if unread:
        cause = Cause(f"{few(f'{kind.lower()}s' for kind in unread)} may not be read", step="run this as somebody who may")
        return Explanation(subject, "", State.UNKNOWN, f"cannot be told whether it may {_doing(asked)}", (cause,))
    near = [*_near(grants, asked), *_dangling(snapshot, user, asked)]
    causes = [Cause("no rule of RBAC allows it", (f"needed: {_needed(asked)}",), "", (*near, *_others(snapshot, asked)))]
    return Explanation(subject, "", State.UNWELL, f"may not {_doing(asked)}", tuple(causes))


def _doing(asked: Attributes) -> str:
    if not asked.is_resource:
        return f"{asked.verb} {asked.path}"
    named = f" {asked.name!r}" if asked.name else ""
    where = f" in namespace {asked.namespace}" if asked.namespace else " in the whole cluster"
    return f"{asked.verb} {_resource(asked)}{named}{where}"


def _resource(asked: Attributes) -> str:
    resource = f"{asked.resource}.{asked.api_group}" if asked.api_group else asked.resource
    return f"{resource}/{asked.subresource}" if asked.subresource else resource


def _combined(asked: Attributes) -> str:
    return f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource


def _needed(asked: Attributes) -> str:
    if not asked.is_resource:
        return f'nonResourceURLs: ["{asked.path}"], verbs: ["{asked.verb}"]'
    return f'apiGroups: ["{asked.api_group}"], resources: ["{_combined(asked)}"], verbs: ["{asked.verb}"]'


def _grants(snapshot: Snapshot, user: UserInfo) -> list[Grant]:
    table = compile_grants(_Roles(snapshot))
    subjects = [("User", user.name), *(("Group", group) for group in user.groups)]
    return [grant for subject in subjects for grant in table.get(subject, ())]


def _covers(grant: Grant, asked: Attributes) -> bool:
    return not grant.namespace or grant.namespace == asked.namespace


def _near(grants: Iterable[Grant], asked: Attributes) -> list[Cause]:
    """What the user has been given and misses the request by one thing: verb, namespace, name, subresource or group."""
    found: dict[str, Cause] = {}
    for grant in grants:
        for rule in grant.rules:
            lacking = _lacking(grant, rule, asked)
            if len(lacking) == 1:
                says = f"near: {grant.binding} gives {grant.role}, {lacking[0]}"
                found.setdefault(says, Cause(says, (_shown(rule),)))
    listed = list(found.values())
    if not listed and not any(True for _ in grants):
        return [Cause("no binding names the user or any of its groups", (f"groups: {few(asked.user.groups)}",))]
    return listed[:_SHOWN]


def _lacking(grant: Grant, rule: Rule, asked: Attributes) -> list[str]:
    """By which of its parts a rule does not allow the request; each is asked with the others taken as met."""
    if not asked.is_resource:
        return [] if not rule.paths else ["but not for this path"]
    met = {
        "verb": Rule((asked.verb,), rule.groups, rule.resources, rule.names),
        "group": Rule(rule.verbs, (asked.api_group,), rule.resources, rule.names),
        "resource": Rule(rule.verbs, rule.groups, (_combined(asked),), rule.names),
        "name": Rule(rule.verbs, rule.groups, rule.resources),
    }
    words = {
        "verb": f"but not the verb {asked.verb}",
        "group": f"but not in the API group {asked.api_group!r}",
        "resource": f"but not for {_combined(asked)}",
        "name": f"but only for the names {few(rule.names)}",
    }
    inside = _covers(grant, asked)
    if rule.allows(asked):
        return [] if inside else [f"but only in namespace {grant.namespace}"]
    if not inside:
        return []
    related = {"resource": any(each.partition("/")[0] == asked.resource for each in rule.resources)}
    return [words[part] for part, mended in met.items() if mended.allows(asked) and related.get(part, True)]


def _shown(rule: Rule) -> str:
    names = f", names {', '.join(rule.names)}" if rule.names else ""
    what = ", ".join(rule.resources or rule.paths)
    groups = ", ".join(each or "core" for each in rule.groups)
    return f"{', '.join(rule.verbs)} on {what} of {groups or 'no group'}{names}"


def _dangling(snapshot: Snapshot, user: UserInfo, asked: Attributes) -> list[Cause]:
    """Bindings of the user to roles that do not exist: they give nothing."""
    found = []
    for kind in ("RoleBinding", "ClusterRoleBinding"):
        for binding in snapshot.all(kind, asked.namespace if kind == "RoleBinding" else ""):
            reference = binding.get("roleRef") or {}
            role, name = str(reference.get("kind")), str(reference.get("name"))
            where = namespace_of(binding) if role == "Role" else ""
            if any(_is(subject, user, binding) for subject in binding.get("subjects") or ()) and snapshot.is_missing(
                role, name, where
            ):
                says = f"{kind.lower()}/{name_of(binding)} gives {role} {name}, which does not exist"
                found.append(Cause(says, step=f"create the {role}, or correct the binding"))
    return found


def _is(subject: Mapping[str, Any], user: UserInfo, binding: Object) -> bool:
    kind, name = subject.get("kind"), str(subject.get("name"))
    if kind == "ServiceAccount":
        return user.name == f"{_ACCOUNT}{subject.get('namespace') or namespace_of(binding)}:{name}"
    return (kind == "User" and name == user.name) or (kind == "Group" and name in user.groups)


def _others(snapshot: Snapshot, asked: Attributes) -> list[Cause]:
    """Roles that would allow it, the narrowest first, and how to give one to the user."""
    clusters = {name_of(each): each for each in snapshot.all("ClusterRole")}
    listed = [("Role", name_of(each), rules_of(each, {})) for each in snapshot.all("Role", asked.namespace) if asked.namespace]
    listed += [("ClusterRole", name, rules_of(each, clusters)) for name, each in clusters.items()]
    fitting = [(kind, name, rules) for kind, name, rules in listed if any(rule.allows(asked) for rule in rules)]
    # roles of the system's own parts are for them, and a role that may do everything is nobody's next step
    fitting = [each for each in fitting if ":" not in each[1] and not any("*" in rule.verbs for rule in each[2])]
    fitting.sort(key=lambda each: len(each[2]))
    if not fitting:
        return [Cause("no role for users allows just this", step=_create(asked))]
    kind, name, _ = fitting[0]
    says = f"not given to the user: {few(f'{kind} {name}' for kind, name, _ in fitting)}"
    return [Cause(says, step=_bind(asked, kind, name))]


def _create(asked: Attributes) -> str:
    if not asked.is_resource:
        return f"kubectl create clusterrole NAME --verb={asked.verb} --non-resource-url={asked.path}"
    kind, where = ("role", f" -n {asked.namespace}") if asked.namespace else ("clusterrole", "")
    return f"kubectl create {kind} NAME --verb={asked.verb} --resource={_resource(asked)}{where}, and bind it"


def _bind(asked: Attributes, kind: str, name: str) -> str:
    user = asked.user.name
    who = f"--user={user}"
    if user.startswith(_ACCOUNT):
        who = f"--serviceaccount={user.removeprefix(_ACCOUNT)}"
    binding, where = ("rolebinding", f" -n {asked.namespace}") if asked.namespace else ("clusterrolebinding", "")
    return f"kubectl create {binding} NAME --{kind.lower()}={name} {who}{where}"
