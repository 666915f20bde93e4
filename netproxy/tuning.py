"""Sizes and timeouts of the kernel's connection table, set once when the proxy starts. Called by ``__main__``."""

from component import logs
from netproxy.config import ConntrackSettings
from netproxy.kernel.sysctl import Sysctl

_log = logs.get(__name__)
_BASE = "net/netfilter/nf_conntrack_"


def tune_conntrack(sysctl: Sysctl, settings: ConntrackSettings, cores: int) -> None:
    """Make room for connections, and keep idle ones as long as upstream does. The table only ever grows here. A setting that
    cannot be written (a network namespace of its own may not size the table) is logged, no more."""
    wanted = max(settings.max_per_core * cores, settings.minimum) if settings.max_per_core else 0
    held = sysctl.get(f"{_BASE}max")
    if wanted and held is not None and held.isdigit() and int(held) < wanted:
        _set(sysctl, "max", wanted)
    timeouts = {
        "tcp_timeout_established": settings.tcp_established,
        "tcp_timeout_close_wait": settings.tcp_close_wait,
        "udp_timeout": settings.udp,
        "udp_timeout_stream": settings.udp_stream,
        "tcp_be_liberal": float(settings.tcp_be_liberal),
    }
    for name, value in timeouts.items():
        if value > 0 and sysctl.get(_BASE + name) not in (None, str(int(value))):
            _set(sysctl, name, int(value))


def _set(sysctl: Sysctl, name: str, value: int) -> None:
    try:
        sysctl.set(_BASE + name, str(value))
        _log.info("Set a kernel setting", sysctl=_BASE + name, value=value)
    except OSError as error:
        _log.warning("Cannot change a kernel setting, going on with the kernel's own", sysctl=_BASE + name, err=error)
