"""Requests without credentials are ``system:anonymous``; the authorizers allow that user the health paths alone."""

from controlplane.apiserver.authentication.interface import ANONYMOUS, AuthenticationFailed, Credentials, UserInfo


class Anonymous:
    """Refuses a request that carries a bearer token nobody recognised: a typing error must not turn into a 403.

    With ``paths`` nobody is anonymous anywhere else (``anonymous.conditions`` of an AuthenticationConfiguration).
    """

    def __init__(self, enabled: bool = True, paths: tuple[str, ...] = ()) -> None:
        self.enabled, self.paths = enabled, paths

    async def authenticate(self, credentials: Credentials) -> UserInfo | None:
        if not self.enabled or (self.paths and credentials.path not in self.paths):
            return None
        if credentials.bearer_token is not None:
            raise AuthenticationFailed("no authenticator knows this bearer token")
        return ANONYMOUS
