"""What a URL asks for: verb, group, version, namespace, resource, name, subresource. A pure function of method and path.

Called by ``filters.request_info``; everything later on the road (authorization, audit, routing, metrics) reads the result.
Follows k8s.io/apiserver ``pkg/endpoints/request/requestinfo.go``.
"""

from dataclasses import dataclass
from urllib.parse import unquote

from apimachinery import errors

_VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_NON_NAMESPACE_PARTS = frozenset({"status", "finalize"})
OPEN_TAILS = frozenset({"proxy"})
"""Subresources whose remaining path belongs to somebody else; for what other servers answer it may follow any."""


@dataclass(slots=True)
class RequestInfo:
    """``is_resource`` is false for paths such as ``/healthz`` or ``/apis``; then only ``verb`` and ``path`` mean something."""

    path: str
    verb: str
    is_resource: bool = False
    api_group: str = ""
    api_version: str = ""
    namespace: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    tail: str = ""  # the path after the subresource, as sent


def parse(method: str, raw_path: str, query: dict[str, str]) -> RequestInfo:
    """Raises a 400 for a path that no client may send: dot segments, encoded slashes, control characters."""
    verb = method.lower() if method not in _VERBS else _VERBS[method]
    segments = raw_path.strip("/").split("/") if raw_path not in ("", "/") else []
    rooted = _root(segments)
    if rooted is None:
        return RequestInfo(raw_path, "get" if method == "HEAD" else method.lower())
    group, version, rest = rooted
    if rest and rest[0] == "watch":
        if method != "GET":
            raise errors.path_not_found()
        verb, rest = "watch", rest[1:]
    if not rest:
        return RequestInfo(raw_path, "get" if method == "HEAD" else method.lower())
    info = RequestInfo(raw_path, verb, True, group, version)
    _fill(info, rest, raw_path)
    _refine_verb(info, method, query)
    return info


def _root(segments: list[str]) -> tuple[str, str, list[str]] | None:
    if len(segments) >= 3 and segments[0] == "api":
        return "", segments[1], segments[2:]
    if len(segments) >= 4 and segments[0] == "apis":
        return segments[1], segments[2], segments[3:]
    return None


def _fill(info: RequestInfo, rest: list[str], raw_path: str) -> None:
    if rest[0] == "namespaces" and len(rest) > 1:
        info.namespace = _segment(rest[1], "Namespace")
        if len(rest) > 2 and rest[2] not in _NON_NAMESPACE_PARTS:
            rest = rest[2:]
    info.resource = _segment(rest[0], "Resource")
    if len(rest) > 1:
        info.name = _segment(rest[1], "Name")
    if len(rest) > 2:
        info.subresource = _segment(rest[2], "Subresource")
        if len(rest) > 3:
            info.tail = "/" + "/".join(rest[3:]) + ("/" if raw_path.endswith("/") else "")


def _segment(text: str, what: str) -> str:
    """One decoded path segment that is safe to become part of a key."""
    value = unquote(text, errors="strict") if "%" in text else text
    why = ""
    if value in (".", ".."):
        why = f"may not be '{value}'"
    elif "/" in value or "%" in value:
        why = f"may not contain '{'/' if '/' in value else '%'}'"
    elif not value.isprintable():
        why = "may not contain control characters"
    if why or not value:
        shown = value.encode("unicode_escape").decode()
        raise errors.bad_request(f'{what} parameter invalid: "{shown}": {why}' if why else f"{what} parameter required.")
    return value


def _refine_verb(info: RequestInfo, method: str, query: dict[str, str]) -> None:
    if info.verb == "get" and not info.name:
        # a HEAD of a watch would be a stream without a body
        info.verb = "watch" if method == "GET" and is_true(query.get("watch")) else "list"
    elif info.verb == "delete" and not info.name:
        info.verb = "deletecollection"
    if info.verb in ("list", "watch") and not info.name:
        selector = query.get("fieldSelector", "")
        if selector.startswith("metadata.name=") and "," not in selector:
            info.name = selector.removeprefix("metadata.name=").removeprefix("=")


def is_true(text: str | None) -> bool:
    """A boolean query parameter as upstream converts it: absent, ``false`` and ``0`` are false, anything else true."""
    return text is not None and text.lower() not in ("false", "0")
