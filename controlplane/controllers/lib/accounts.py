"""Each controller writes as a service account of its own in kube-system, so that its role bounds what it can do.

``__main__`` makes one :class:`Accounts` with ``--use-service-account-credentials``; the manager's own identity makes the
accounts and asks for their tokens (``serviceaccounts/token``). All share one pool of connections, which carries no client
certificate: that would be believed before any token.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from apimachinery.errors import StatusError
from apimachinery.resources import SERVICE_ACCOUNTS
from apimachinery.times import parse_time
from client.rest import Client, is_already_exists, is_not_found
from client.transport import AioTransport, Request, Response, Transport

NAMESPACE = "kube-system"
_SECONDS = 3600
_RENEW_AT = 0.8
"""The part of a token's life after which the next one is asked for, as upstream's ``transport`` for bound tokens."""


class Accounts:
    """Clients by service account; a context manager that closes the pool they share."""

    def __init__(self, manager: Client) -> None:
        config = replace(
            manager.config,
            certificate_file=None,
            certificate_data=None,
            key_file=None,
            key_data=None,
            token=None,
            token_file=None,
            username=None,
            password=None,
            exec_plugin=None,
            impersonate=None,
            source=None,  # read again, the kubeconfig would bring the manager's own certificate back
            source_context=None,
        )
        self._manager, self._config = manager, config
        self._pool = AioTransport(config, manager.user_agent, manager.clock)
        self._clients: dict[str, Client] = {}

    async def __aenter__(self) -> "Accounts":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._pool.close()

    def client(self, account: str) -> Client:
        """The client that speaks as ``account``. Its first request makes the account and its token."""
        if account not in self._clients:
            speaks = _Speaks(self._pool, Token(self._manager, account))
            self._clients[account] = Client(
                self._config, component=f"controller-manager/{account}", clock=self._manager.clock, transport=speaks
            )
        return self._clients[account]


class Token:
    """One account's token, renewed before it expires."""

    def __init__(self, manager: Client, account: str) -> None:
        self._manager, self._account = manager, account
        self._held = ""
        self._renew = datetime.min.replace(tzinfo=manager.clock.now().tzinfo)
        self._asking = asyncio.Lock()

    async def value(self) -> str:
        """Raises StatusError when the manager may not have it. A token that cannot be renewed is used to its end."""
        now = self._manager.clock.now()
        if self._held and now < self._renew:
            return self._held
        async with self._asking:
            if self._held and now < self._renew:
                return self._held
            made = await self._ask()
            self._held = str(made["token"])
            life = parse_time(str(made["expirationTimestamp"])) - now
            self._renew = now + max(life * _RENEW_AT, timedelta(seconds=1))
            return self._held

    def refused(self, token: str) -> None:
        """The server does not believe it any more: the account was deleted, perhaps, and is to be made again."""
        if token == self._held:
            self._held = ""

    async def _ask(self) -> Mapping[str, object]:
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": _SECONDS}}
        try:
            answer = await self._manager.post_subresource(SERVICE_ACCOUNTS, self._account, "token", request, NAMESPACE)
        except StatusError as error:
            if not is_not_found(error):
                raise
            await self._make()
            answer = await self._manager.post_subresource(SERVICE_ACCOUNTS, self._account, "token", request, NAMESPACE)
        status: Mapping[str, object] = answer["status"]
        return status

    async def _make(self) -> None:
        account = {
            "apiVersion": SERVICE_ACCOUNTS.api_version,
            "kind": "ServiceAccount",
            "metadata": {"name": self._account, "namespace": NAMESPACE},
        }
        try:
            await self._manager.create(SERVICE_ACCOUNTS, account)
        except StatusError as error:
            if not is_already_exists(error):
                raise


class _Speaks:
    """A Transport that adds one account's token; a refused one is replaced and the request sent once more."""

    def __init__(self, pool: Transport, token: Token) -> None:
        self._pool, self._token = pool, token

    async def send(self, request: Request) -> Response:
        for again in (True, False):
            token = await self._token.value()
            headers = {**request.headers, "Authorization": f"Bearer {token}"}
            response = await self._pool.send(replace(request, headers=headers))
            if response.status != 401 or not again:
                return response
            response.close()
            self._token.refused(token)
        raise AssertionError("unreachable")

    async def close(self) -> None:
        """The pool is shared, and closed by its owner."""
