"""``Impersonate-User`` and its companions: act as somebody else, if the real user may (``impersonation_modes``)."""

from collections.abc import Awaitable
from urllib.parse import unquote

from apimachinery import errors
from controlplane.apiserver.authorization.interface import Authorizer
from controlplane.apiserver.filters.access_metrics import AccessMetrics
from controlplane.apiserver.filters.authorize import attributes_of
from controlplane.apiserver.filters.impersonation_modes import Impersonation, Wanted
from controlplane.apiserver.filters.interface import Filter
from controlplane.apiserver.wire.call import Call

_USER, _GROUP, _UID, _EXTRA = "Impersonate-User", "Impersonate-Group", "Impersonate-Uid", "impersonate-extra-"


def impersonate(authorizer: Authorizer, *, constrained: bool = True, metrics: AccessMetrics | None = None) -> Filter:
    """Stands after authentication; everything later sees the impersonated user, the audit log both."""
    impersonation = Impersonation(authorizer, constrained=constrained, count=(metrics or AccessMetrics()).impersonated)

    def step(call: Call) -> Awaitable[None] | None:
        headers = call.headers
        if headers.get(_USER):
            return become(call)
        if _GROUP in headers or headers.get(_UID) or any(key.lower().startswith(_EXTRA) for key in headers):
            raise errors.bad_request("requested impersonation without impersonating a user name")
        return None

    async def become(call: Call) -> None:
        headers = call.headers
        wanted = Wanted(headers[_USER], headers.get(_UID, ""), tuple(headers.getall(_GROUP, [])), _extra(call))
        user, call.constraint = await impersonation.become(wanted, attributes_of(call))
        call.impersonator, call.user = call.user, user

    return step


def _extra(call: Call) -> dict[str, list[str]]:
    extra: dict[str, list[str]] = {}
    for key, value in call.headers.items():
        if key.lower().startswith(_EXTRA):
            extra.setdefault(unquote(key.lower().removeprefix(_EXTRA)), []).append(value)
    return extra
