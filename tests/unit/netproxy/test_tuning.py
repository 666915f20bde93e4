"""The connection table's settings: only what differs is written, and the table never shrinks."""

from netproxy.config import ConntrackSettings
from netproxy.kernel.sysctl import FakeSysctl
from netproxy.tuning import tune_conntrack

BASE = "net/netfilter/nf_conntrack_"


def _tuned(settings: ConntrackSettings, cores: int = 2, **values: str) -> dict[str, str]:
    sysctl = FakeSysctl({BASE + name: value for name, value in values.items()})
    tune_conntrack(sysctl, settings, cores)
    return {name.removeprefix(BASE): value for name, value in sysctl.values.items()}


def test_upstreams_sizes_and_timeouts() -> None:
    kernel = {"max": "65536", "tcp_timeout_established": "432000", "tcp_timeout_close_wait": "60", "udp_timeout": "30"}
    wanted = {"max": "131072", "tcp_timeout_established": "86400", "tcp_timeout_close_wait": "3600", "udp_timeout": "30"}
    assert _tuned(ConntrackSettings(), **kernel) == wanted
    assert _tuned(ConntrackSettings(), cores=64, **kernel)["max"] == str(64 * 32768)


def test_the_table_never_shrinks_and_zero_leaves_the_kernels_own() -> None:
    assert _tuned(ConntrackSettings(), max="999999") == {"max": "999999"}
    nothing = ConntrackSettings(max_per_core=0, tcp_established=0, tcp_close_wait=0)
    kernel = {"max": "1", "tcp_timeout_established": "5", "tcp_timeout_close_wait": "6"}
    assert _tuned(nothing, **kernel) == kernel


def test_a_setting_that_the_kernel_has_not_or_keeps_is_no_obstacle() -> None:
    class ReadOnly(FakeSysctl):
        def set(self, name: str, value: str) -> None:
            raise PermissionError(13, "Permission denied")

    tune_conntrack(ReadOnly({f"{BASE}max": "1"}), ConntrackSettings(), 1)
