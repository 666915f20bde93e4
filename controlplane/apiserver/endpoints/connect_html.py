"""HTML behind a proxy: links that start at the backend's root are moved below the proxy's path, as upstream does.

Works on bytes, so the page's character set does not matter. Called by ``connect_proxy.py`` for ``text/html`` answers. Pure.
"""

import re
import zlib
from dataclasses import dataclass
from html import escape, unescape
from urllib.parse import urlsplit, urlunsplit

# Attributes that hold a URL, by element.
_ATTRIBUTES = {
    "a": "href",
    "applet": "codebase",
    "area": "href",
    "audio": "src",
    "base": "href",
    "blockquote": "cite",
    "body": "background",
    "button": "formaction",
    "command": "icon",
    "del": "cite",
    "embed": "src",
    "form": "action",
    "frame": "longdesc src",
    "head": "profile",
    "html": "manifest",
    "iframe": "longdesc src",
    "img": "longdesc src usemap",
    "input": "formaction src usemap",
    "ins": "cite",
    "link": "href",
    "object": "classid codebase data usemap",
    "q": "cite",
    "script": "src",
    "source": "src",
    "video": "poster src",
}
_TAG = re.compile(rb"<([a-zA-Z][a-zA-Z0-9]*)((?:\s+|/)(?:[^<>\"']|\"[^\"]*\"|'[^']*')*)>")
_ATTRIBUTE = re.compile(rb"""([a-zA-Z][-a-zA-Z0-9]*)(\s*=\s*)("[^"]*"|'[^']*'|[^\s"'>]+)""")


@dataclass(frozen=True, slots=True)
class Rewriter:
    """``prefix`` is the proxy's own path, ``backend`` the host and port behind it, ``host`` what the client asked for."""

    prefix: str
    backend: str
    host: str

    def url(self, text: str) -> str:
        """The URL that leads through the proxy to where ``text`` leads from the backend; relative and foreign ones stay."""
        try:
            parts = urlsplit(text)
        except ValueError:
            return text
        if parts.netloc and parts.netloc not in (self.backend, self.host):
            return text
        if not parts.path.startswith("/"):
            return text
        scheme, host = (parts.scheme, parts.netloc) if parts.netloc == self.host else ("", "")
        prefix = self.prefix.rstrip("/")
        inside = parts.path == prefix or parts.path.startswith(prefix + "/")
        return urlunsplit((scheme, host, parts.path if inside else prefix + parts.path, parts.query, parts.fragment))

    def page(self, body: bytes) -> bytes:
        return _TAG.sub(self._tag, body)

    def _tag(self, match: "re.Match[bytes]") -> bytes:
        names = _ATTRIBUTES.get(match[1].decode().lower(), "").split()
        if not names:
            return match[0]

        def attribute(found: "re.Match[bytes]") -> bytes:
            if found[1].decode().lower() not in names:
                return found[0]
            raw = found[3].decode("latin-1")
            quoted = raw[:1] in "\"'"
            value = raw[1:-1] if quoted else raw
            new = self.url(unescape(value)) if "&" in value else self.url(value)
            text = escape(new) if "&" in value else new
            mark = raw[0] if quoted else ""
            return found[1] + found[2] + f"{mark}{text}{mark}".encode("latin-1", "xmlcharrefreplace")

        return b"<" + match[1] + _ATTRIBUTE.sub(attribute, match[2]) + b">"


def unpacked(body: bytes, encoding: str, limit: int) -> bytes | None:
    """The page of an answer with this ``Content-Encoding``; None where it cannot be read, and so goes on as it is."""
    if encoding in ("", "identity"):
        return body
    if encoding not in ("gzip", "deflate"):
        return None
    reader = zlib.decompressobj(47)  # gzip or zlib, by its header
    try:
        page = reader.decompress(body, limit)
    except zlib.error:
        return None
    return None if reader.unconsumed_tail else page
