"""Several authenticators asked in order; the first user counts. A union is an authenticator itself."""

from collections.abc import Sequence

from controlplane.apiserver.authentication.interface import AuthenticationFailed, Authenticator, Credentials, UserInfo


class UnionAuthenticator:
    """One bad credential does not hide a good one: a failure is raised only when nobody recognised the request."""

    def __init__(self, members: Sequence[Authenticator]) -> None:
        self._members = tuple(members)

    async def authenticate(self, credentials: Credentials) -> UserInfo | None:
        failures: list[str] = []
        for member in self._members:
            try:
                user = await member.authenticate(credentials)
            except AuthenticationFailed as failure:
                failures.append(str(failure))
                continue
            if user is not None:
                return user
        if failures:
            raise AuthenticationFailed("; ".join(failures))
        return None


class FirstThen:
    """``primary``, and ``fallback`` only when primary saw no credentials at all (anonymous requests)."""

    def __init__(self, primary: Authenticator, fallback: Authenticator) -> None:
        self._primary, self._fallback = primary, fallback

    async def authenticate(self, credentials: Credentials) -> UserInfo | None:
        user = await self._primary.authenticate(credentials)
        return user if user is not None else await self._fallback.authenticate(credentials)


class Authenticated:
    """Adds ``system:authenticated`` to whoever ``inner`` recognises."""

    def __init__(self, inner: Authenticator) -> None:
        self._inner = inner

    async def authenticate(self, credentials: Credentials) -> UserInfo | None:
        user = await self._inner.authenticate(credentials)
        if user is None or user.name == "system:anonymous" or "system:authenticated" in user.groups:
            return user
        return UserInfo(user.name, user.uid, (*user.groups, "system:authenticated"), user.extra)
