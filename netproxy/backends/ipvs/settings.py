"""Settings of the ipvs mode alone. Made by ``config`` from flags."""

from dataclasses import dataclass

SCHEDULERS = ("rr", "wrr", "lc", "wlc", "lblc", "lblcr", "dh", "sh", "sed", "nq", "mh", "fo", "ovf", "twos")


@dataclass(frozen=True, slots=True)
class IPVSSettings:
    """``exclude_cidrs``: virtual servers there are somebody else's. Timeouts in seconds, 0 for the kernel's own."""

    scheduler: str = "rr"
    strict_arp: bool = False
    exclude_cidrs: tuple[str, ...] = ()
    tcp_timeout: float = 0.0
    tcp_fin_timeout: float = 0.0
    udp_timeout: float = 0.0


DEFAULTS = IPVSSettings()
