import pytest

from controlplane.apiserver.registry.allocation import Pool, RangeFullError, addresses, ports
from controlplane.apiserver.storage.backends.memory import MemoryBackend
from controlplane.apiserver.storage.interface import Put


@pytest.mark.parametrize(
    ("cidr", "size", "reserved", "first"),
    [
        # upstream: KEP-3070, "reserve service IP ranges": min(max(16, size / 16), 256)
        pytest.param("10.96.0.0/12", 2**20 - 2, 256, "10.96.0.1", id="default"),
        pytest.param("10.0.0.0/24", 254, 16, "10.0.0.1", id="24 bits"),
        pytest.param("10.0.0.0/28", 14, 14, "10.0.0.1", id="all reserved"),
        pytest.param("10.0.0.0/29", 6, 0, "10.0.0.1", id="too small for a band"),
        pytest.param("fd00::/112", 2**16 - 1, 256, "fd00::1", id="IPv6"),
    ],
)
def test_bands_of_address_ranges(cidr: str, size: int, reserved: int, first: str) -> None:
    items = addresses(cidr)
    assert (items.size, items.reserved, items.text(0)) == (size, reserved, first)


def test_bands_of_the_default_node_port_range() -> None:
    items = ports(30000, 32767)
    assert (items.size, items.reserved, items.text(0)) == (2768, 86, "30000")  # KEP-3668


async def test_random_picks_spare_the_reserved_band() -> None:
    pool = Pool(MemoryBackend(), "/registry/x/", ports(30000, 32767), choose=lambda bound: 0)
    assert await pool.pick() == "30086"


async def test_a_nearly_full_range_is_searched_and_a_full_one_says_so() -> None:
    backend = MemoryBackend()
    pool = Pool(backend, "/registry/x/", ports(1, 20), choose=lambda bound: 0)
    for taken in range(20, 0, -1):
        if taken != 3:
            await backend.commit([], [Put(f"/registry/x/{taken}", b"")])
    assert await pool.pick() == "3"  # of the reserved band, when nothing else is left
    with pytest.raises(RangeFullError, match="range is full"):
        await pool.pick(avoid={"3"})
