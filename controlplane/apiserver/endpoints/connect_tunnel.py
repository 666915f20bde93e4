"""An upgrade passed on: dial the backend with the client's wish, and only if it agrees give it the client's connection.

CVE-2018-1002105: a backend that refuses must never see a byte that the client sends afterwards, or the client would speak
with our credentials. So a refusal is an ordinary answer, after which the client's connection closes.
"""

import ssl

from component.streams import upgrade
from component.streams.duplex import Duplex, splice
from component.streams.hijacked import Hijacked
from component.streams.upgrade import Headers, Refusal, Upgraded, UpgradeError
from controlplane.apiserver.endpoints.connect_kubelet import backend_error
from controlplane.apiserver.wire.call import Call
from controlplane.apiserver.wire.reply import TEXT, Answer, Reply

_HOP = frozenset({"transfer-encoding", "content-length", "keep-alive", "proxy-authenticate", "trailer", "te"})


async def dial(method: str, url: str, headers: Headers, context: ssl.SSLContext | None) -> Upgraded | Refusal:
    """Raises StatusError 500 when the backend cannot be reached."""
    try:
        return await upgrade.connect(method, url, headers, ssl_context=context)
    except UpgradeError as error:
        raise backend_error(f"error dialing backend: {error}") from error


async def tunnel(call: Call, url: str, context: ssl.SSLContext | None, headers: Headers) -> Answer:
    """Join client and backend until either ends. Redirects are refusals like any other: they are never followed."""
    answer = await dial(call.method, url, headers, context)
    if isinstance(answer, Refusal):
        return refused(answer)
    client = Duplex()
    try:
        upgrade.hijack(call.http, client, [(name.title(), value) for name, value in answer.headers.items() if name not in _HOP])
        await splice(client, answer.duplex)
    finally:
        answer.duplex.close()
    return Hijacked()


def refused(answer: Refusal) -> Reply:
    """The backend's words, and the end of this connection."""
    reply = Reply(answer.status, answer.body, answer.headers.get("content-type", TEXT))
    if location := answer.headers.get("location"):
        reply.headers.append(("Location", location))
    reply.keep_alive = False
    return reply
