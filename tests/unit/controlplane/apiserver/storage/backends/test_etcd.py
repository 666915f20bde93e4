"""The pure parts of the etcd backend: keys, addresses, leases, and what a repeated write may conclude."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.apiserver.storage.backends.etcd.backend import done_before, repeatable
from controlplane.apiserver.storage.backends.etcd.config import EtcdConfig, checked, endpoint
from controlplane.apiserver.storage.backends.etcd.keys import WHOLE, Keys, end_of
from controlplane.apiserver.storage.backends.etcd.leases import MAX_KEYS, Leases
from controlplane.apiserver.storage.interface import Commit, Condition, Delete, KeyValue, Put


@pytest.mark.parametrize(
    ("url", "target", "tls"),
    [
        ("https://10.0.0.1:2379", "10.0.0.1:2379", True),
        ("http://etcd.example", "etcd.example:2379", False),
        ("https://[fd00::1]:4001", "[fd00::1]:4001", True),
        ("127.0.0.1:2379", "127.0.0.1:2379", False),
    ],
)
def test_endpoint(url: str, target: str, tls: bool) -> None:
    assert (endpoint(url).target, endpoint(url).tls) == (target, tls)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (EtcdConfig(()), "needs --etcd-servers"),
        (EtcdConfig(("unix:///run/etcd",)), "is not the URL of an etcd server"),
        (EtcdConfig(("https://a",), prefix="registry"), "write an absolute path"),
        (EtcdConfig(("https://a",), prefix="/"), "write an absolute path"),
    ],
)
def test_settings_that_do_not_fit(config: EtcdConfig, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        checked(config)


@given(st.binary(max_size=4), st.binary(max_size=4))
def test_end_of_bounds_exactly_what_has_the_prefix(prefix: bytes, key: bytes) -> None:
    end = end_of(prefix)
    inside = key >= prefix and (end == WHOLE or key < end)
    assert inside == key.startswith(prefix)


def test_keys_of_another_prefix() -> None:
    keys = Keys("/clusters/blue/")
    assert keys.outer("/registry/pods/a/b") == b"/clusters/blue/pods/a/b"
    assert keys.inner(b"/clusters/blue/pods/a/b") == "/registry/pods/a/b"
    assert keys.inner(b"/clusters/bluer/pods/a/b") == ""
    assert keys.span("/registry/pods/") == (b"/clusters/blue/pods/", b"/clusters/blue/pods0")
    assert keys.span("") == (b"/clusters/blue/", b"/clusters/blue0")


class TestRepeatedWrites:
    """After an answer that never came, the same transaction is sent again; these are its outcomes."""

    CREATE = ((Condition("/a", 0),), (Put("/a", b"new"),))
    CLAIM = ((Condition("/a", 0), Condition("/claim", 0)), (Put("/a", b"new"), Put("/claim", b"a")))

    @staticmethod
    def refused(*current: KeyValue | None) -> Commit:
        return Commit(False, 50, current)

    def test_what_can_be_repeated(self) -> None:
        assert repeatable(*self.CREATE)
        assert not repeatable((), (Put("/a", b"new"),)), "it would overwrite what came after it"
        assert not repeatable((Condition("/a", 7),), (Delete("/a"),)), "whose deletion it was cannot be told"
        assert not repeatable((Condition("/b", 7),), (Put("/a", b"new"),)), "its condition stays true"

    def test_its_own_bytes_tell_that_it_was_done(self) -> None:
        assert done_before(*self.CREATE, self.refused(KeyValue("/a", b"new", 41, 41))) == 41
        both = self.refused(KeyValue("/a", b"new", 41, 41), KeyValue("/claim", b"a", 41, 41))
        assert done_before(*self.CLAIM, both) == 41

    @pytest.mark.parametrize(
        "outcome",
        [
            pytest.param((KeyValue("/a", b"other", 41, 41), KeyValue("/claim", b"a", 41, 41)), id="overwritten"),
            pytest.param((KeyValue("/a", b"new", 41, 41), KeyValue("/claim", b"a", 42, 42)), id="at two revisions"),
            pytest.param((KeyValue("/a", b"new", 41, 41), None), id="half"),
            pytest.param((None, None), id="deleted"),
        ],
    )
    def test_anything_else_stays_unknown(self, outcome: tuple[KeyValue | None, ...]) -> None:
        assert done_before(*self.CLAIM, self.refused(*outcome)) is None

    def test_the_old_value_is_no_proof(self) -> None:
        update = ((Condition("/a", 41),), (Put("/a", b"same"),))
        assert done_before(*update, self.refused(KeyValue("/a", b"same", 30, 41))) is None


class TestLeases:
    def make(self, reuse: int = 60) -> None:
        self.granted: list[int] = []
        self.now = 0.0

        async def grant(seconds: int) -> int:
            await asyncio.sleep(0)
            self.granted.append(seconds)
            return len(self.granted)

        self.leases = Leases(grant, reuse, lambda: self.now)

    async def test_one_serves_many_and_outlives_each(self) -> None:
        self.make()
        assert set(await asyncio.gather(*(self.leases.get(3600) for _ in range(50)))) == {1}
        assert self.granted == [3660]
        self.now = 60
        assert await self.leases.get(3600) == 1
        self.now = 61
        assert await self.leases.get(3600) == 2, "the first would end before its time"

    async def test_another_time_to_live_is_another_lease(self) -> None:
        self.make()
        assert [await self.leases.get(3600), await self.leases.get(60), await self.leases.get(3600)] == [1, 2, 1]
        assert self.granted == [3660, 63], "a short life is stretched by a twentieth"

    async def test_a_lease_has_a_bound_of_keys(self) -> None:
        self.make()
        numbers = [await self.leases.get(3600) for _ in range(MAX_KEYS + 1)]
        assert (numbers[0], numbers[-2], numbers[-1]) == (1, 1, 2)

    async def test_a_lost_lease_is_not_given_again(self) -> None:
        self.make()
        self.leases.forget(await self.leases.get(3600))
        assert await self.leases.get(3600) == 2
