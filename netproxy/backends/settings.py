"""Kernel settings without which rules do not see packets. Only ever switched on, as others may need them too."""

from component import logs
from netproxy.kernel.sysctl import Sysctl
from netproxy.trackers.services import Family

_log = logs.get(__name__)


def filter_bridged(sysctl: Sysctl, family: Family) -> None:
    """Let rules see what goes from port to port of a bridge, as between pods of one node."""
    bridged = f"net/bridge/bridge-nf-call-{'ip' if family == 'IPv4' else 'ip6'}tables"
    if sysctl.get(bridged) is None:
        _log.info("No br_netfilter (modprobe it): on a bridge, pods of one node cannot reach each other by Services")
    else:
        switch_on(sysctl, bridged, "on a bridge, pods of one node cannot reach each other through Services")


def switch_on(sysctl: Sysctl, name: str, otherwise: str) -> None:
    """``otherwise`` says what does not work when it cannot be done, which is logged."""
    if sysctl.get(name) != "0":
        return
    try:
        sysctl.set(name, "1")
    except OSError as error:
        _log.warning(f"Cannot change a kernel setting: {otherwise}", sysctl=name, err=error)
