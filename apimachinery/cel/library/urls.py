"""URLs: made from text, taken apart. Upstream's ``library.URLs``; what is one, Go's ``url.ParseRequestURI`` says."""

import re
from typing import Any
from urllib.parse import quote, unquote

from apimachinery.cel import values
from apimachinery.cel.library.declare import BOOL, STRING, Overload, T, list_of

_TYPE = T(values.URL)
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):")
_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_PORT = re.compile(r"(?::[0-9]*)?")
_HOST = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=:%\[\]<>\"\x80-\U0010ffff]*")
_USER = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
_SAFE = "/:@!$&'()*+,;=-._~"
_Parts = tuple[str, str, str, str]


def _parts(text: str) -> _Parts:
    """Scheme, host with its port, path as written, query. Raises ValueError with Go's message."""
    reason = ""
    if _CONTROL.search(text):
        reason = "net/url: invalid control character in URL"
    elif not text:
        reason = "empty url"
    if reason:
        raise _bad(text, reason)
    rest, _, fragment = text.partition("#")
    scheme = ""
    if found := _SCHEME.match(rest):
        scheme, rest = found[1].lower(), rest[found.end() :]
    elif rest.startswith(":"):
        raise _bad(text, "missing protocol scheme")
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        raise _bad(text, "invalid URI for request")
    host = ""
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        host, rest = _host(text, authority), slash + path
    for part in (rest, fragment):
        if wrong := _ESCAPE.search(part):
            raise _bad(text, f'invalid URL escape "{part[wrong.start() : wrong.start() + 3]}"')
    return scheme, host, rest, query


def _host(text: str, authority: str) -> str:
    user, at, host = authority.rpartition("@")
    if at and not _USER.fullmatch(user):
        raise _bad(text, "net/url: invalid userinfo")
    if host.startswith("["):
        _, bracket, port = host.rpartition("]")
        if not bracket:
            raise _bad(text, "missing ']' in host")
    else:
        port = host[len(host.partition(":")[0]) :]
    if not _PORT.fullmatch(port):
        raise _bad(text, f'invalid port "{port}" after host')
    if not _HOST.fullmatch(host):
        wrong = next(character for character in host if not _HOST.fullmatch(character))
        raise _bad(text, f'invalid character "{wrong}" in host name')
    if wrong_escape := _ESCAPE.search(host):
        raise _bad(text, f'invalid URL escape "{host[wrong_escape.start() : wrong_escape.start() + 3]}"')
    return unquote(host)


def _bad(text: str, reason: str) -> ValueError:
    return ValueError(f'URL parse error during conversion from string: parse "{text}": {reason}')


def check(text: str) -> None:
    """Raises ValueError with upstream's message for what is no URL."""
    _parts(text)


def _make(text: str) -> Any:
    check(text)
    return values.make(values.URL, text)


def is_url(text: str) -> bool:
    try:
        _parts(text)
    except ValueError:
        return False
    return True


def _part(index: int) -> Any:
    return lambda value: _parts(values.text_of(value))[index]


def _hostname(value: Any) -> str:
    host = _parts(values.text_of(value))[1]
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _port(value: Any) -> str:
    host = _parts(values.text_of(value))[1]
    return host.rpartition("]")[2].partition(":")[2]


def _escaped_path(value: Any) -> str:
    path = _parts(values.text_of(value))[2]
    return quote(path, safe=_SAFE + "%")


def _query(value: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for pair in _parts(values.text_of(value))[3].split("&"):
        key, _, content = pair.partition("=")
        if pair and ";" not in pair and not _ESCAPE.search(pair):  # as Go, which leaves out what it cannot read
            found.setdefault(unquote(key.replace("+", " ")), []).append(unquote(content.replace("+", " ")))
    return found


OVERLOADS = (
    Overload("url", "string_to_url", (STRING,), _TYPE, _make),
    Overload("isURL", "is_url_string", (STRING,), BOOL, is_url),
    Overload("getScheme", "url_get_scheme", (_TYPE,), STRING, _part(0), True),
    Overload("getHost", "url_get_host", (_TYPE,), STRING, _part(1), True),
    Overload("getHostname", "url_get_hostname", (_TYPE,), STRING, _hostname, True),
    Overload("getPort", "url_get_port", (_TYPE,), STRING, _port, True),
    Overload("getEscapedPath", "url_get_escaped_path", (_TYPE,), STRING, _escaped_path, True),
    Overload("getQuery", "url_get_query", (_TYPE,), T("map", (STRING, list_of(STRING))), _query, True),
)
