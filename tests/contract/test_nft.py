"""One table of nftables, real and in memory: what is taken, what is refused, and that a refusal changes nothing."""

from collections.abc import Iterator

import pytest

from component.process import RealRunner
from netproxy.kernel.fake_nft import FakeNFT
from netproxy.kernel.nft import NFT, Existing, NFTError, RealNFT, Transaction, removal
from tests.support.netns import own_network_namespace

pytestmark = pytest.mark.root
VERDICTS = "{ type ipv4_addr . inet_proto . inet_service : verdict ; }"
CLIENTS = "{ type ipv4_addr ; flags dynamic,timeout ; timeout 60s ; }"


@pytest.fixture(params=["real", "fake"])
def nft(request: pytest.FixtureRequest) -> Iterator[NFT]:
    with own_network_namespace():
        yield RealNFT(RealRunner()) if request.param == "real" else FakeNFT()


def _table() -> Transaction:
    made = Transaction()
    made.add("table", "")
    made.add("chain", "top", "{ type filter hook input priority 0 ; }")
    made.add("chain", "endpoint-A-ns/s/tcp/__10.0.0.1/80")
    made.add("map", "ips", VERDICTS)
    made.add("set", "affinity-A", CLIENTS)
    made.rules("top", ["ip daddr . meta l4proto . th dport vmap @ips", "ip saddr @affinity-A accept"])
    made.add_elements("ips", {"10.96.0.1 . tcp . 80": ": goto endpoint-A-ns/s/tcp/__10.0.0.1/80"})
    return made


async def test_nothing_then_a_table_then_nothing(nft: NFT) -> None:
    assert (await nft.look(), await nft.rule_count("top")) == (Existing(), 0)
    await nft.run(_table())
    await nft.run(_table())
    assert await nft.look() == Existing(frozenset({"top", "endpoint-A-ns/s/tcp/__10.0.0.1/80"}), {"affinity-A": 60})
    assert (await nft.rule_count("top"), await nft.rule_count("none")) == (4, 0)
    await nft.run(removal())
    await nft.run(removal())
    assert await nft.look() == Existing()


REFUSED: dict[str, Transaction] = {}


def _refused(name: str) -> Transaction:
    return REFUSED.setdefault(name, Transaction())


_refused("rule to no chain").rules("top", ["jump missing"])
_refused("rule of no set").rules("top", ["ip saddr @missing accept"])
_refused("delete no chain").delete("chain", "missing")
_refused("delete a used set").delete("set", "affinity-A")
_refused("another base chain").add("chain", "top", "{ type filter hook input priority 10 ; }")
_refused("an element twice").add_elements("ips", {"10.96.0.1 . tcp . 80": ": drop"})
_refused("a long comment").add_elements("ips", {"10.96.0.9 . tcp . 80": f'comment "{"c" * 129}" : drop'})
_refused("delete no element").delete_elements("ips", ["10.96.0.9 . tcp . 80"])


@pytest.mark.parametrize("name", REFUSED)
async def test_what_is_refused_changes_nothing(nft: NFT, name: str) -> None:
    await nft.run(_table())
    transaction = Transaction()
    transaction.flush("chain", "endpoint-A-ns/s/tcp/__10.0.0.1/80")
    transaction.rules("top", ["accept"])
    transaction.commands += REFUSED[name].commands
    for check in (True, False):
        with pytest.raises(NFTError):
            await nft.run(transaction, check=check)
    assert await nft.rule_count("top") == 2


async def test_a_question_changes_nothing(nft: NFT) -> None:
    await nft.run(_table(), check=True)
    assert await nft.look() == Existing()


async def test_an_element_is_replaced_within_one_transaction(nft: NFT) -> None:
    await nft.run(_table())
    change = Transaction()
    change.delete_elements("ips", ["10.96.0.1 . tcp . 80"])
    change.add_elements("ips", {"10.96.0.1 . tcp . 80": f'comment "ns/{"s" * 125}" : drop'})
    await nft.run(change)
