"""Why a server of somebody else's could not be asked, in the words that Go has for it: clients and people match on them.

Made from what ``aiohttp`` raises; called by ``service_client``. Pure.
"""

import os
import ssl

import aiohttp

_UNTRUSTED = frozenset({2, 18, 19, 20, 21, 27})  # OpenSSL's X509_V_ERR_*: no issuer, self-signed, untrusted
_EXPIRED = frozenset({9, 10})
_WRONG_NAME = frozenset({62, 64})
_STATUSES = {
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    406: "the server was unable to respond with a content type that the client supports",
    409: "the server reported a conflict",
    413: "the request entity is too large",
    415: "the server was not able to respond in a content type that the client supports",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}
_REJECTED = "the server rejected our request for an unknown reason"


def of_answer(status: int) -> str:
    """What upstream's client says of an answer that is no success. What the body says is not repeated to whoever asked."""
    if status in _STATUSES:
        return _STATUSES[status]
    if status == 400:
        return _REJECTED
    if status >= 500:
        return 'an error on the server ("unknown") has prevented the request from succeeding'
    return f"the server responded with the status code {status} but did not return more information"


def of_exchange(error: BaseException, host: str, port: int, name: str) -> str:
    """``host`` and ``port`` are where the connection went, ``name`` is who had to be there."""
    if isinstance(error, TimeoutError):
        return "context deadline exceeded"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return _certificate(error.certificate_error, name)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"dial tcp: lookup {host}: no such host"
    if isinstance(error, ssl.SSLCertVerificationError):
        return _certificate(error, name)
    if isinstance(error, aiohttp.ClientConnectorSSLError | aiohttp.ClientSSLError | ssl.SSLError):
        return _handshake(error)
    if isinstance(error, aiohttp.ClientConnectorError):
        shown = f"[{host}]" if ":" in host else host
        return f"dial tcp {shown}:{port}: connect: {_system(error.os_error)}"
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError):
        return "EOF"
    if isinstance(error, OSError):
        return f"read: {_system(error)}"
    return str(error) or type(error).__name__


def _system(error: OSError) -> str:
    """The system's word for it; event loops put their own sentence in its place."""
    return os.strerror(error.errno).lower() if error.errno else str(error)


def _certificate(error: BaseException, name: str) -> str:
    code = getattr(error, "verify_code", 0)
    if code in _UNTRUSTED:
        why = "certificate signed by unknown authority"
    elif code in _EXPIRED:
        why = "certificate has expired or is not yet valid"
    elif code in _WRONG_NAME:
        why = f"certificate is not valid for {name}"
    else:
        why = str(getattr(error, "verify_message", "")) or str(error)
    return f"tls: failed to verify certificate: x509: {why}"


def _handshake(error: BaseException) -> str:
    inner = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    reason = str(getattr(inner, "reason", "") or "")
    if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"):
        return "http: server gave HTTP response to HTTPS client"
    return f"remote error: tls: {reason.lower().replace('_', ' ')}" if reason else str(inner)
