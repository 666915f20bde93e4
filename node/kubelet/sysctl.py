"""Which sysctls a pod may set: the safe ones, and those that the node's owner has allowed. Pure; asked when a pod comes.

A safe sysctl belongs to a namespace of the pod, harms no other pod, and lets nobody have more of the node than its limits say.
Source of the list and the messages: upstream's pkg/kubelet/sysctl.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from apimachinery.objects import pods

REASON = "SysctlForbidden"
_NET, _IPC = "Network", "IPC"
SAFE = frozenset(
    {
        "kernel.shm_rmid_forced",
        *(f"net.ipv4.{name}" for name in ("ip_local_port_range", "tcp_syncookies", "ping_group_range")),
        *(f"net.ipv4.{name}" for name in ("ip_unprivileged_port_start", "ip_local_reserved_ports", "tcp_keepalive_time")),
        *(f"net.ipv4.{name}" for name in ("tcp_fin_timeout", "tcp_keepalive_intvl", "tcp_keepalive_probes")),
        *(f"net.ipv4.{name}" for name in ("tcp_rmem", "tcp_wmem")),
    }
)
_NAMESPACES = {"kernel.sem": _IPC}
_PREFIXES = {"kernel.shm": _IPC, "kernel.msg": _IPC, "fs.mqueue.": _IPC, "net.": _NET}


def normalized(name: str) -> str:
    """With dots between its parts. A name whose first separator is a slash has slashes there, and dots inside of parts."""
    first = next((character for character in name if character in "./"), ".")
    return name if first == "." else name.translate({ord("."): "/", ord("/"): "."})


def namespace_of(name: str) -> str:
    """``Network`` or ``IPC``, or empty for one that the whole node shares."""
    return _NAMESPACES.get(name) or next((space for prefix, space in _PREFIXES.items() if name.startswith(prefix)), "")


def check(patterns: Iterable[str]) -> None:
    """``allowedUnsafeSysctls``: names, or prefixes that end with ``*``. Raises ValueError in upstream's words."""
    for given in patterns:
        bare = normalized(given.removesuffix("*"))
        if not bare:
            raise ValueError(f"sysctl pattern {given!r} is too short")
        if not namespace_of(bare):
            raise ValueError(f"the sysctls {given!r} are not known to be namespaced")


def refuse(pod: Mapping[str, Any], allowed: Iterable[str]) -> tuple[str, str] | None:
    """(reason, message) when the pod sets what it may not; ``allowed`` are the owner's patterns."""
    spec = pods.spec_of(pod)
    shared = {_NET: bool(spec.get("hostNetwork")), _IPC: bool(spec.get("hostIPC"))}
    patterns = [normalized(each) for each in allowed]
    for entry in (spec.get("securityContext") or {}).get("sysctls") or ():
        name = normalized(str(entry["name"]))
        if name not in SAFE and not any(_matches(name, pattern) for pattern in patterns):
            return REASON, f'forbidden sysctl: "{name}" not allowlisted'
        if shared.get(space := namespace_of(name)):
            return REASON, f'forbidden sysctl: "{name}" not allowed with host {space} enabled'
    return None


def _matches(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
