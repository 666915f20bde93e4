"""What every IPTables does: the fake, and the real tools of both kinds in a network namespace of the test's own."""

import asyncio
import fcntl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from component.process import RealRunner
from netproxy.kernel.fake_iptables import FakeIPTables
from netproxy.kernel.iptables import IPTables, IPTablesError, RealIPTables, Transaction
from tests.support.netns import own_network_namespace


@pytest.fixture(
    params=["fake", pytest.param("nft", marks=pytest.mark.root), pytest.param("legacy", marks=pytest.mark.root)],
)
async def tables(request: pytest.FixtureRequest) -> AsyncIterator[IPTables]:
    if request.param == "fake":
        yield FakeIPTables()
        return
    with own_network_namespace():
        yield RealIPTables(RealRunner(), "IPv4", request.param, step=2)


def _written(table: str = "nat", **chains: tuple[str, ...]) -> Transaction:
    transaction = Transaction()
    transaction.table(table).chains.update(chains)
    return transaction


async def _chains(tables: IPTables, table: str = "nat") -> dict[str, tuple[str, ...]]:
    return dict((await tables.save()).get(table, {}))


async def test_chains_are_made_filled_rewritten_and_removed(tables: IPTables) -> None:
    await tables.restore(_written(A=("-j RETURN",), B=("-p tcp -j A", "-j A")))
    assert (await _chains(tables))["A"] == ("-j RETURN",)
    assert (await _chains(tables))["B"] == ("-p tcp -j A", "-j A")
    await tables.restore(_written(B=("-j A",)))
    assert (await _chains(tables))["B"] == ("-j A",)
    transaction = _written(A=())
    transaction.table("nat").removed.append("B")
    await tables.restore(transaction)
    left = await _chains(tables)
    assert "B" not in left
    assert left["A"] == ()


async def test_insertions_go_to_the_head_and_deletions_take_one_rule(tables: IPTables) -> None:
    await tables.restore(_written(A=("-j RETURN",), B=("-p udp -j A", "-p tcp -j A")))
    change = Transaction()
    change.table("nat").inserts += [("B", "-p icmp -j A"), ("OUTPUT", "-j B")]
    change.table("nat").deletes.append(("B", "-p udp -j A"))
    await tables.restore(change)
    chains = await _chains(tables)
    assert chains["B"] == ("-p icmp -j A", "-p tcp -j A")
    assert chains["OUTPUT"] == ("-j B",)


async def test_what_is_not_named_stays(tables: IPTables) -> None:
    await tables.restore(_written(A=("-j RETURN",)))
    await tables.restore(_written("filter", F=("-j ACCEPT",)))
    await tables.restore(_written(B=("-j RETURN",)))
    assert (await _chains(tables))["A"] == ("-j RETURN",)
    assert (await _chains(tables, "filter"))["F"] == ("-j ACCEPT",)


async def test_a_long_list_of_chains_arrives_whole_and_in_order(tables: IPTables) -> None:
    chains = {f"C{number}": (f"-j C{number - 1}",) if number else ("-j RETURN",) for number in range(7)}
    await tables.restore(_written(**chains))
    found = await _chains(tables)
    assert {name: found[name] for name in chains} == chains


async def test_a_refused_transaction_changes_nothing(tables: IPTables) -> None:
    await tables.restore(_written(A=("-j RETURN",)))
    for bad in (
        _written(A=("-j NOWHERE",)),
        _written(B=("-j RETURN",), A=("-j NOWHERE",)),
        _written(**{"X" * 29: ()}),
    ):
        with pytest.raises(IPTablesError):
            await tables.restore(bad)
        chains = await _chains(tables)
        assert chains["A"] == ("-j RETURN",)
        assert "B" not in chains
    missing = Transaction()
    missing.table("nat").deletes.append(("A", "-p tcp -j RETURN"))
    with pytest.raises(IPTablesError):
        await tables.restore(missing)
    referenced = _written(B=("-j A",))
    await tables.restore(referenced)
    removal = Transaction()
    removal.table("nat").removed.append("A")
    with pytest.raises(IPTablesError):
        await tables.restore(removal)
    assert (await _chains(tables))["A"] == ("-j RETURN",)


async def test_looking_for_a_chain(tables: IPTables) -> None:
    assert not await tables.has_chain("nat", "A")
    await tables.restore(_written(A=()))
    assert await tables.has_chain("nat", "A")
    assert not await tables.has_chain("mangle", "A")


async def test_an_empty_transaction_is_nothing(tables: IPTables) -> None:
    await tables.restore(Transaction())
    assert not any((await tables.save()).get("nat", {}).values())


@pytest.mark.root
async def test_legacy_waits_for_the_lock_that_another_program_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = tmp_path / "xtables.lock"
    monkeypatch.setenv("XTABLES_LOCKFILE", str(lock))
    with own_network_namespace():
        tables = RealIPTables(RealRunner(), "IPv4", "legacy")
        with lock.open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            writing = asyncio.ensure_future(tables.restore(_written(A=())))
            await asyncio.sleep(0.3)
            assert not writing.done()
            fcntl.flock(held, fcntl.LOCK_UN)
            await writing
        assert await tables.has_chain("nat", "A")
