"""Kernel settings without which virtual servers do not do what Services promise."""

import os
import re

from component import logs
from netproxy.backends.ipvs.settings import IPVSSettings
from netproxy.backends.settings import filter_bridged
from netproxy.kernel.sysctl import Sysctl
from netproxy.trackers.services import Family

_log = logs.get(__name__)
_REUSE_IS_FIXED = (5, 9)
"""Since this kernel a connection from a port that was used before costs no second; before, reuse had to be let go."""
_ALWAYS = {
    "net/ipv4/vs/conntrack": "1",  # or iptables does not see the connections that it is to masquerade
    "net/ipv4/vs/expire_nodest_conn": "1",  # a connection to a real server that is gone starts anew
    "net/ipv4/vs/expire_quiescent_template": "1",  # clients with affinity leave real servers of weight 0
    "net/ipv4/ip_forward": "1",
}
_STRICT_ARP = {"net/ipv4/conf/all/arp_ignore": "1", "net/ipv4/conf/all/arp_announce": "2"}


def prepare(sysctl: Sysctl, family: Family, settings: IPVSSettings) -> None:
    """Set what differs; what cannot be set is logged."""
    wanted = dict(_ALWAYS)
    release = re.match(r"(\d+)\.(\d+)", os.uname().release)
    if release and (int(release[1]), int(release[2])) < _REUSE_IS_FIXED:
        wanted["net/ipv4/vs/conn_reuse_mode"] = "0"
    if settings.strict_arp:
        # nobody on the network may learn of the addresses of Services that this node has them
        wanted |= _STRICT_ARP
    for name, value in wanted.items():
        if sysctl.get(name) in (value, None):
            continue
        try:
            sysctl.set(name, value)
        except OSError as error:
            _log.warning("Cannot change a kernel setting that the ipvs mode needs", sysctl=name, value=value, err=error)
    filter_bridged(sysctl, family)
