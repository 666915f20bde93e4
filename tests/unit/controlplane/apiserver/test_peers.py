"""Who the API servers are: the order of their addresses, their Leases, and which Lease is a leftover."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controlplane.apiserver.peers import IDENTITY_LABEL, Addresses, Identity, in_order, is_expired_identity, renewed
from controlplane.apiserver.storage.backends.memory import MemoryBackend

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Shared(MemoryBackend):
    """A backend that several servers may use."""

    exclusive = False


def test_addresses_are_in_the_same_order_for_everybody() -> None:
    assert in_order(["10.0.0.10", "fd00::2", "10.0.0.9", "10.0.0.10"]) == ["10.0.0.9", "10.0.0.10", "fd00::2"]


async def test_servers_find_each_other_and_leave() -> None:
    backend = Shared()
    first, second = Addresses(backend, "10.0.0.1"), Addresses(backend, "10.0.0.2")
    assert await first.renew() == ["10.0.0.1"]
    assert await second.renew() == ["10.0.0.1", "10.0.0.2"]
    assert await first.renew() == ["10.0.0.1", "10.0.0.2"]
    assert await first.leave() == ["10.0.0.2"]
    assert await second.leave() == []
    await backend.close()


@pytest.mark.looptime
async def test_a_server_that_says_nothing_is_gone_after_fifteen_seconds() -> None:
    backend = Shared()
    first, second = Addresses(backend, "10.0.0.1"), Addresses(backend, "10.0.0.2")
    await second.renew()
    await asyncio.sleep(10)
    assert await first.renew() == ["10.0.0.1", "10.0.0.2"]
    await asyncio.sleep(10)
    assert await first.renew() == ["10.0.0.1"]
    await backend.close()


async def test_the_only_server_of_a_store_writes_nothing() -> None:
    backend = MemoryBackend()
    before = await backend.current_revision()
    assert await Addresses(backend, "10.0.0.1").renew() == ["10.0.0.1"]
    assert await backend.current_revision() == before


def test_identities_differ_by_place_and_holders_by_process() -> None:
    one, again, other = Identity("10.0.0.1", 6443), Identity("10.0.0.1", 6443), Identity("10.0.0.2", 6443)
    assert one.name == again.name != other.name
    lease, renewed_by = one.lease(NOW), again.lease(NOW)
    assert lease["metadata"]["labels"][IDENTITY_LABEL] == "kube-apiserver"
    assert lease["spec"]["holderIdentity"].startswith(f"{one.name}_")
    assert lease["spec"]["holderIdentity"] != renewed_by["spec"]["holderIdentity"]
    stored = {**lease, "metadata": {**lease["metadata"], "uid": "u", "labels": {"mine": "1"}}}
    kept = renewed(stored, renewed_by)
    assert kept["metadata"]["uid"] == "u"
    assert kept["metadata"]["labels"] == {"mine": "1", **lease["metadata"]["labels"]}
    assert kept["spec"] == renewed_by["spec"]


@pytest.mark.parametrize(
    ("change", "age", "expired"),
    [
        pytest.param({}, 3599, False, id="alive"),
        pytest.param({}, 3601, True, id="long gone"),
        pytest.param({"labels": {}}, 3601, False, id="somebody else's"),
    ],
)
def test_leftovers(change: dict[str, Any], age: int, expired: bool) -> None:
    lease = Identity("10.0.0.1", 6443).lease(NOW)
    lease["metadata"] |= change
    assert is_expired_identity(lease, NOW + timedelta(seconds=age)) is expired


def test_a_lease_without_a_time_is_a_leftover() -> None:
    lease = Identity("10.0.0.1", 6443).lease(NOW)
    del lease["spec"]["renewTime"]
    assert is_expired_identity(lease, NOW)
