"""Builds an ``audit.k8s.io/v1`` Event from a finished call. Pure."""

import ipaddress
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from apimachinery.times import format_micro_time
from controlplane.apiserver.authentication.interface import UserInfo
from controlplane.apiserver.wire.call import Call

_FORWARDED = 4096  # characters that are looked at


def event(call: Call, code: int, stage: str, finished: float, level: str = "Metadata") -> dict[str, Any]:
    """``code`` is 0 before there is an answer. Bodies are for the caller to add."""
    info = call.info
    record: dict[str, Any] = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": level,
        "auditID": call.audit_id,
        "stage": stage,
        "requestURI": call.path + ("?" + call.query_string if call.query_string else ""),
        "verb": info.verb,
        "user": _user(call.impersonator or call.user),
        "sourceIPs": source_ips(call.headers, call.http.remote or ""),
        "userAgent": call.headers.get("User-Agent", ""),
    }
    if call.impersonator is not None:
        record["impersonatedUser"] = _user(call.user)
    if call.constraint:
        record["authenticationMetadata"] = {"impersonationConstraint": call.constraint}
    if info.is_resource:
        record["objectRef"] = _object_ref(call)
    if code:
        record["responseStatus"] = {"metadata": {}, "code": code}
    record["requestReceivedTimestamp"] = format_micro_time(call.now)
    record["stageTimestamp"] = format_micro_time(datetime.fromtimestamp(finished, UTC))
    if call.annotations:
        record["annotations"] = dict(call.annotations)
    return record


def source_ips(headers: Mapping[str, str], remote: str) -> list[str]:
    """Where a request says it comes from, proxy by proxy, and last where the connection does. All but the last can be made up.

    ``SourceIPs`` of ``k8s.io/apimachinery/pkg/util/net``: ``X-Forwarded-For``, ``X-Real-Ip`` if it is not among those, and the
    connection's address if it is not the last so far.
    """
    found = []
    for part in headers.get("X-Forwarded-For", "")[:_FORWARDED].split(","):
        found += _address(part)
    for real in _address(headers.get("X-Real-Ip", "")[:_FORWARDED]):
        if real not in found:
            found.append(real)
    last = _address(remote)
    return found if last == found[-1:] else [*found, *last]


def _address(text: str) -> list[str]:
    try:
        return [str(ipaddress.ip_address(text.strip()))]
    except ValueError:
        return []


def _user(info: UserInfo) -> dict[str, Any]:
    user: dict[str, Any] = {"username": info.name}
    if info.uid:
        user["uid"] = info.uid
    if info.groups:
        user["groups"] = list(info.groups)
    if info.extra:
        user["extra"] = {key: list(values) for key, values in info.extra.items()}
    return user


def _object_ref(call: Call) -> dict[str, Any]:
    info = call.info
    reference = {
        "resource": info.resource,
        "namespace": info.namespace,
        "name": info.name,
        "apiGroup": info.api_group,
        "apiVersion": info.api_version,
        "subresource": info.subresource,
    }
    if call.stored_as is not None:
        name, uid, revision = call.stored_as
        reference.update({"name": name, "uid": uid, "resourceVersion": revision})
    return {key: value for key, value in reference.items() if value}
