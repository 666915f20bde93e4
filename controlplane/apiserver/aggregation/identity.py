"""Whom a request speaks for, in the headers of a front proxy. Pure; ``authentication.request_header`` reads them."""

import re

from controlplane.apiserver.authentication.interface import UserInfo

USER, UID, GROUP, EXTRA = "X-Remote-User", "X-Remote-Uid", "X-Remote-Group", "X-Remote-Extra-"

AVAILABILITY = UserInfo("system:kube-aggregator", groups=("system:masters",))
"""Who asks whether a server is there, and what it has: somebody who may."""
OPENAPI = UserInfo("system:aggregator")
"""Who fetches descriptions, which everybody may."""

# Bytes that a header's name may hold (RFC 9110), without the one that stands for others.
_ESCAPED = re.compile(rb"[^!#$&'*+\-.^_`|~0-9A-Za-z]")


def identity_headers(user: UserInfo) -> list[tuple[str, str]]:
    """All that an extension server is told; keys of extra values are escaped, as they become names of headers."""
    found = [(USER, user.name)]
    if user.uid:
        found.append((UID, user.uid))
    found += [(GROUP, group) for group in user.groups]
    return found + [(EXTRA + _escaped(key), value) for key in sorted(user.extra) for value in user.extra[key]]


def _escaped(key: str) -> str:
    return _ESCAPED.sub(lambda found: b"%%%02X" % found[0][0], key.encode()).decode()
