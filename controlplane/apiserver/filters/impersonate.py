"""``Impersonate-User`` and its companions: act as somebody else, if the real user may."""

from collections.abc import Awaitable
from urllib.parse import unquote

from apimachinery import errors
from controlplane.apiserver.authentication.interface import UserInfo
from controlplane.apiserver.authorization.interface import Attributes, Authorizer, Decision
from controlplane.apiserver.filters.authorize import refused
from controlplane.apiserver.filters.interface import Filter
from controlplane.apiserver.wire.call import Call

_USER, _GROUP, _UID, _EXTRA = "Impersonate-User", "Impersonate-Group", "Impersonate-Uid", "impersonate-extra-"
_ACCOUNT = "system:serviceaccount:"


def impersonate(authorizer: Authorizer) -> Filter:
    """Stands after authentication; everything later sees the impersonated user, the audit log both."""

    def step(call: Call) -> Awaitable[None] | None:
        headers = call.headers
        if _USER in headers:
            return become(call)
        if _GROUP in headers or _UID in headers:
            raise errors.bad_request("requested impersonation without impersonating a user")
        return None

    async def become(call: Call) -> None:
        name = call.headers[_USER]
        groups = call.headers.getall(_GROUP, [])
        uid = call.headers.get(_UID, "")
        extra = _extra(call)
        await check(call.user, _request_for_user(name))
        for group in groups:
            await check(call.user, ("", "groups", "", "", group))
        if uid:
            await check(call.user, ("authentication.k8s.io", "uids", "", "", uid))
        for key, values in extra.items():
            for value in values:
                await check(call.user, ("authentication.k8s.io", "userextras", key, "", value))
        call.impersonator = call.user
        call.user = _user(name, uid, groups, extra)

    async def check(user: UserInfo, wanted: tuple[str, str, str, str, str]) -> None:
        group, resource, subresource, namespace, name = wanted
        asked = Attributes(user, "impersonate", "", True, group, "", resource, subresource, namespace, name)
        decision, reason = await authorizer.authorize(asked)
        if decision is not Decision.ALLOW:
            raise refused(asked, reason)

    return step


def _request_for_user(name: str) -> tuple[str, str, str, str, str]:
    if name.startswith(_ACCOUNT) and name.count(":") == 3:
        namespace, account = name.removeprefix(_ACCOUNT).split(":")
        return "", "serviceaccounts", "", namespace, account
    return "", "users", "", "", name


def _extra(call: Call) -> dict[str, list[str]]:
    extra: dict[str, list[str]] = {}
    for key, value in call.headers.items():
        if key.lower().startswith(_EXTRA):
            extra.setdefault(unquote(key.lower().removeprefix(_EXTRA)), []).append(value)
    return extra


def _user(name: str, uid: str, groups: list[str], extra: dict[str, list[str]]) -> UserInfo:
    wanted = list(groups)
    if name.startswith(_ACCOUNT) and name.count(":") == 3 and not groups:
        wanted = ["system:serviceaccounts", f"system:serviceaccounts:{name.split(':')[2]}"]
    general = "system:unauthenticated" if name == "system:anonymous" else "system:authenticated"
    if general not in wanted:
        wanted.append(general)
    return UserInfo(name, uid, tuple(wanted), extra)
