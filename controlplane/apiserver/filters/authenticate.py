"""Who is asking? Runs the authenticators; the answer for a connection's certificate and token is remembered on it."""

import base64
import time
from collections.abc import Awaitable, Sequence

from apimachinery import errors
from component.streams.upgrade import BEARER_PREFIX
from component.tls import peer_chain
from controlplane.apiserver.authentication.interface import (
    ANONYMOUS,
    AuthenticationFailed,
    Authenticator,
    Credentials,
    Remarks,
    UserInfo,
)
from controlplane.apiserver.filters.access_metrics import ERROR, FAILURE, SUCCESS, AccessMetrics, user_group
from controlplane.apiserver.filters.interface import Filter
from controlplane.apiserver.wire.call import Call

TOKEN_TTL = 10.0  # seconds a verified token is believed on one connection, as upstream's token cache
_PEER = "peer-certificates"
_WEBSOCKET = "Sec-WebSocket-Protocol"


def authenticate(authenticator: Authenticator, user_headers: Sequence[str] = (), metrics: AccessMetrics | None = None) -> Filter:
    """A filter that sets ``call.user`` or raises 401. A certificate cannot change during a connection; a token can lapse.

    ``user_headers`` are those by which a front proxy names users. One proxy's connection carries many users, so what is
    remembered on a connection must depend on nothing but the Authorization header: requests that say who they are in another
    way are asked about each time, and remembered never.
    """
    elsewhere = (*user_headers, _WEBSOCKET)
    metrics = metrics or AccessMetrics()

    def step(call: Call) -> Awaitable[None] | None:
        memory = call.connection
        for header in elsewhere:
            if header in call.headers:
                return identify(call, call.headers.get("Authorization"), remember=False)
        known: tuple[str | None, UserInfo, float, str, Remarks | None] | None = memory.get("user")
        authorization = call.headers.get("Authorization")
        if known is not None and known[0] == authorization and known[2] > time.monotonic():
            call.user = known[1]
            metrics.remembered(known[3])
            if known[4] is not None:
                _tell(call, known[4])
            return None
        return identify(call, authorization, remember=True)

    async def identify(call: Call, authorization: str | None, *, remember: bool) -> None:
        begun, result = time.perf_counter(), FAILURE
        memory = call.connection
        if _PEER not in memory:
            memory[_PEER] = _peer_certificates(call)
        certificate, others = memory[_PEER]
        remarks = Remarks()
        try:
            token = bearer_token(call, authorization)
            credentials = Credentials(certificate, token, call.headers, memory, call.path, others, remarks)
            user = await authenticator.authenticate(credentials)
        except AuthenticationFailed as failure:
            call.annotations["authentication.k8s.io/failure"] = str(failure)
            user, result = None, ERROR
        except UnicodeEncodeError:  # a header in no character set: nobody has such a token
            user = None
        _tell(call, remarks)
        metrics.recognised(result if user is None else SUCCESS, time.perf_counter() - begun)
        if user is None:
            raise errors.unauthorized()
        call.user = user
        group = user_group(user.name)
        metrics.users[group] += 1
        if remember and user is not ANONYMOUS:  # who may be anonymous can depend on the path
            memory["user"] = (authorization, user, time.monotonic() + TOKEN_TTL, group, remarks or None)

    return step


def _tell(call: Call, remarks: Remarks) -> None:
    if remarks:
        call.annotations.update(remarks.annotations)
        call.warnings += remarks.warnings


def _peer_certificates(call: Call) -> tuple[bytes | None, tuple[bytes, ...]]:
    """The client's certificate and those it sent along, DER."""
    transport = call.http.transport
    connection = transport.get_extra_info("ssl_object") if transport is not None else None
    chain = peer_chain(connection) if connection is not None else ()
    return (chain[0], chain[1:]) if chain else (None, ())


def bearer_token(call: Call, authorization: str | None) -> str | None:
    """The token of an Authorization header, or of the WebSocket subprotocol that browsers must use instead.

    Raises AuthenticationFailed for subprotocols that do not name one token.
    """
    if authorization:
        scheme, _, token = authorization.strip().partition(" ")
        return token.strip() or None if scheme.lower() == "bearer" else None
    if _WEBSOCKET not in call.headers or call.headers.get("Upgrade", "").lower() != "websocket":
        return None
    offered = [each.strip() for line in call.headers.getall(_WEBSOCKET) for each in line.split(",")]
    tokens = [each.removeprefix(BEARER_PREFIX) for each in offered if each.startswith(BEARER_PREFIX)]
    if not tokens:
        return None
    if len(tokens) > 1:
        raise AuthenticationFailed("multiple base64.bearer.authorization tokens specified")
    if len(offered) < 2:  # the server has to answer with one of the others
        raise AuthenticationFailed("missing additional subprotocol")
    try:
        return base64.b64decode(tokens[0] + "=" * (-len(tokens[0]) % 4), b"-_", validate=True).decode()
    except ValueError:
        raise AuthenticationFailed("the token of a subprotocol is not in base64url encoding") from None
