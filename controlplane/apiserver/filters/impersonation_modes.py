"""Who may act as whom: by ``impersonate`` for everything, or by one of the constrained modes for single actions (KEP-5284).

Asked by ``impersonate``, modes in upstream's order (``pkg/endpoints/filters/impersonation/mode.go``). A constrained mode needs
two permissions of the real user: ``impersonate:<mode>`` for the identity, ``impersonate-on:<mode>:<verb>`` for what is done.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from apimachinery import names
from apimachinery.errors import StatusError
from controlplane.apiserver.authentication.interface import UserInfo
from controlplane.apiserver.authorization.interface import Attributes, Authorizer, Decision
from controlplane.apiserver.filters.authorize import refused

_ACCOUNT, _NODE = "system:serviceaccount:", "system:node:"
_AUTHENTICATION = "authentication.k8s.io"
_NODE_KEY = "authentication.kubernetes.io/node-name"
_MASTERS, _NODES = "system:masters", "system:nodes"
_UNAUTHENTICATED, _AUTHENTICATED = "system:unauthenticated", "system:authenticated"
_MANY = 4  # from so many values on, one question about all of them is tried first


@dataclass(frozen=True, slots=True)
class Wanted:
    """Whom a request wants to act as, as its headers say."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def is_bare(self) -> bool:
        return not (self.uid or self.groups or self.extra)


@dataclass(frozen=True, slots=True)
class Mode:
    """``fits`` says whether the mode is for this wish at all. The one without a name is the old, unconstrained way."""

    name: str
    fits: Callable[[Wanted, UserInfo], bool]

    @property
    def verb(self) -> str:
        return f"impersonate:{self.name}" if self.name else "impersonate"


def account_of(name: str) -> tuple[str, str] | None:
    """Namespace and name of a service account by its user name."""
    if not name.startswith(_ACCOUNT) or name.count(":") != 3:
        return None
    namespace, account = name.removeprefix(_ACCOUNT).split(":")
    if names.is_dns1123_label(namespace) or names.is_dns1123_subdomain(account):
        return None
    return namespace, account


def node_of(name: str) -> str | None:
    node = name.removeprefix(_NODE)
    return node if name.startswith(_NODE) and not names.is_dns1123_subdomain(node) else None


def _is_its_node(wanted: Wanted, real: UserInfo) -> bool:
    node = node_of(wanted.name)
    if node is None or not wanted.is_bare or account_of(real.name) is None:
        return False
    return list(real.extra.get(_NODE_KEY) or ()) == [node]


LEGACY = Mode("", lambda wanted, real: True)
CONSTRAINED = (
    Mode("associated-node", _is_its_node),
    Mode("arbitrary-node", lambda wanted, real: wanted.is_bare and node_of(wanted.name) is not None),
    Mode("serviceaccount", lambda wanted, real: wanted.is_bare and account_of(wanted.name) is not None),
    Mode("user-info", lambda wanted, real: node_of(wanted.name) is None and account_of(wanted.name) is None),
)


class Impersonation:
    def __init__(
        self,
        authorizer: Authorizer,
        *,
        constrained: bool = True,
        count: Callable[[str, bool], None] = lambda mode, allowed: None,
    ) -> None:
        """``count`` is told of each mode that was tried and whether it allowed it."""
        self._authorizer, self._count = authorizer, count
        self._modes = (*(CONSTRAINED if constrained else ()), LEGACY)

    async def become(self, wanted: Wanted, asked: Attributes) -> tuple[UserInfo, str]:
        """The user to go on as, and the constraint that allowed it (empty for none). ``asked`` is the real user's request.

        Raises StatusError 403, the first mode's words.
        """
        refusal: StatusError | None = None
        for mode in self._modes:
            if not mode.fits(wanted, asked.user):
                continue
            try:
                user = await self._by(mode, wanted, asked)
            except StatusError as error:
                refusal = refusal or error
                self._count(mode.name or "legacy", False)
                continue
            self._count(mode.name or "legacy", True)
            return user, (mode.verb if mode.name else "")
        assert refusal is not None  # the last mode fits everybody
        raise refusal

    async def _by(self, mode: Mode, wanted: Wanted, asked: Attributes) -> UserInfo:
        real = asked.user
        if mode.name:
            if mode.name == "associated-node":  # asked for all nodes alike: which one it is, has been seen to
                real = replace(real, extra={"authentication.kubernetes.io/associated-node-keys": sorted(real.extra)})
            await self._check(replace(asked, user=real, verb=f"impersonate-on:{mode.name}:{asked.verb}"))
        question = Attributes(real, mode.verb, "", True, _AUTHENTICATION if mode.name else "", "v1")
        groups = await self._name(mode, wanted, question)
        if wanted.uid:
            await self._check(replace(question, api_group=_AUTHENTICATION, resource="uids", name=wanted.uid))
        await self._groups(mode, wanted.groups, replace(question, resource="groups"))
        await self._extra(mode, wanted.extra, replace(question, api_group=_AUTHENTICATION, resource="userextras"))
        return UserInfo(wanted.name, wanted.uid, _with_general(wanted.name, groups), dict(wanted.extra))

    async def _name(self, mode: Mode, wanted: Wanted, question: Attributes) -> tuple[str, ...]:
        """Returns the groups that come with the name, where they are fixed."""
        groups = wanted.groups
        about = replace(question, resource="users", name=wanted.name)
        node, account = node_of(wanted.name), account_of(wanted.name)
        if mode.name and node is not None:
            about = replace(about, resource="nodes", name="*" if mode.name == "associated-node" else node)
            groups = (_NODES,)
        elif account is not None:
            about = replace(about, resource="serviceaccounts", namespace=account[0], name=account[1])
            groups = groups or ("system:serviceaccounts", f"system:serviceaccounts:{account[0]}")
        await self._check(about)
        return groups

    async def _groups(self, mode: Mode, groups: Sequence[str], question: Attributes) -> None:
        if mode.name:
            if "" in groups:
                raise refused(question, "impersonating the empty string group is not allowed")
            if _MASTERS in groups:
                raise refused(replace(question, name=_MASTERS), f"impersonating the {_MASTERS} group is not allowed")
            if len(groups) >= _MANY and await self._allowed(replace(question, name="*")):
                return
        for group in groups:
            await self._check(replace(question, name=group))

    async def _extra(self, mode: Mode, extra: Mapping[str, Sequence[str]], question: Attributes) -> None:
        if mode.name:
            if problem := _extra_problem(extra):
                raise refused(question, problem)
            many = len(extra) >= _MANY or sum(len(values) for values in extra.values()) >= _MANY
            if many and await self._allowed(replace(question, subresource="*", name="*")):
                return
        for key, values in extra.items():
            for value in values:
                await self._check(replace(question, subresource=key, name=value))

    async def _allowed(self, question: Attributes) -> bool:
        return (await self._authorizer.authorize(question))[0] is Decision.ALLOW

    async def _check(self, question: Attributes) -> None:
        decision, reason = await self._authorizer.authorize(question)
        if decision is not Decision.ALLOW:
            raise refused(question, reason)


def _extra_problem(extra: Mapping[str, Sequence[str]]) -> str:
    for key, values in extra.items():
        if not key:
            return "impersonating the empty string key in extra is not allowed"
        domain, slash, path = key.partition("/")
        if not slash or not path or names.is_dns1123_subdomain(domain):
            return 'impersonating an invalid key in extra is not allowed: must be a domain-prefixed path (such as "acme.io/foo")'
        if not values or "" in values:
            return "impersonating the empty string value in extra is not allowed"
    return ""


def _with_general(name: str, groups: Sequence[str]) -> tuple[str, ...]:
    """Everybody is in one of the two groups that say whether they are known."""
    if name == "system:anonymous":
        general = _UNAUTHENTICATED
    elif _UNAUTHENTICATED in groups:
        return tuple(groups)
    else:
        general = _AUTHENTICATED
    return tuple(groups) if general in groups else (*groups, general)
