"""Query strings as Go's net/url reads them, because clients have come to depend on it. Used by ``call``."""

import re
from urllib.parse import parse_qsl

_MALFORMED = re.compile(r"%(?![0-9A-Fa-f]{2})|;")


def pairs(query: str) -> list[tuple[str, str]]:
    """Names and values in order. A pair with a malformed escape or a semicolon is left out, not refused."""
    if _MALFORMED.search(query):
        query = "&".join(pair for pair in query.split("&") if not _MALFORMED.search(pair))
    return parse_qsl(query, keep_blank_values=True)
