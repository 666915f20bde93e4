"""Requests without credentials are ``system:anonymous``; the authorizers allow that user the health paths alone."""

from controlplane.apiserver.authentication.interface import ANONYMOUS, AuthenticationFailed, Credentials, UserInfo


class Anonymous:
    """Refuses a request that carries a bearer token nobody recognised: a typing error must not turn into a 403."""

    async def authenticate(self, credentials: Credentials) -> UserInfo | None:
        if credentials.bearer_token is not None:
            raise AuthenticationFailed("no authenticator knows this bearer token")
        return ANONYMOUS
