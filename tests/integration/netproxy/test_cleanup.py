"""Clean-up on real tables: ours go, others' stay, whichever iptables wrote them."""

import subprocess
from collections.abc import Iterator

import pytest

from component.clock import FakeClock
from component.process import RealRunner
from netproxy.backends.iptables import IPTablesBackend
from netproxy.backends.ipvs import IPVSBackend, Kernel
from netproxy.backends.ipvs.settings import IPVSSettings
from netproxy.backends.nftables import NFTablesBackend
from netproxy.backends.options import Options
from netproxy.cleanup import cleanup, remove_other_modes
from netproxy.kernel.addresses import RealLocalAddresses, device_exists
from netproxy.kernel.ipset import RealIPSets
from netproxy.kernel.iptables import IPTablesError, Mode, RealIPTables, Transaction, detect
from netproxy.kernel.ipvs import IPVSError, RealIPVS
from netproxy.kernel.legacy import LegacyTables, loaded
from netproxy.kernel.nft import RealNFT
from netproxy.kernel.sysctl import FakeSysctl
from tests.support.netns import own_network_namespace
from tests.support.proxy import TestProxy, endpoint, endpoint_slice, node, port, service

pytestmark = pytest.mark.root


@pytest.fixture(autouse=True)
def namespace() -> Iterator[None]:
    with own_network_namespace():
        yield


async def _programmed(mode: Mode) -> RealIPTables:
    tables = RealIPTables(RealRunner(), "IPv4", mode)
    proxy = TestProxy(IPTablesBackend(tables, FakeSysctl(), Options(cluster_cidr="10.244.0.0/16")))
    proxy.put(node(), service(type="NodePort", ports=[port(80, node_port=30080)]), endpoint_slice([endpoint("10.244.0.2")]))
    await proxy.sync()
    return tables


def _foreign(mode: str) -> None:
    for rule in (
        "-t filter -A FORWARD -p tcp --dport 9 -j ACCEPT",
        "-t nat -N CNI-abc",
        "-t nat -A CNI-abc -j MASQUERADE",
        "-t nat -A POSTROUTING -s 10.244.0.2/32 -m comment --comment pods -j CNI-abc",
    ):
        _iptables(mode, rule)


def _iptables(mode: str, arguments: str) -> None:
    subprocess.run([f"iptables-{mode}", *arguments.split()], check=True)


@pytest.mark.parametrize("mode", ["nft", "legacy"])
async def test_ours_go_and_others_stay(mode: Mode) -> None:
    _foreign(mode)
    before = await RealIPTables(RealRunner(), "IPv4", mode).save()
    tables = await _programmed(mode)
    assert "KUBE-SERVICES" in (await tables.save())["nat"]
    await cleanup()
    after = await tables.save()
    for table in ("nat", "filter"):
        ours = {chain: rules for chain, rules in after[table].items() if rules or chain not in before.get(table, {})}
        assert {chain: rules for chain, rules in ours.items() if rules} == {
            chain: rules for chain, rules in before[table].items() if rules
        }
        assert not [chain for chain in after[table] if chain.startswith("KUBE-")]
    await cleanup()


async def test_what_another_mode_left_goes_and_tables_of_others_stay() -> None:
    runner = RealRunner()
    await runner.run(["nft", "add", "table", "ip", "others"])
    tables, table = await _programmed("nft"), RealNFT(runner)
    proxy = TestProxy(NFTablesBackend(table, FakeSysctl(), Options(cluster_cidr="10.244.0.0/16"), FakeClock()))
    proxy.put(node(), service(), endpoint_slice([endpoint("10.244.0.2")]))
    await remove_other_modes("nftables", runner)
    assert not [chain for chain in (await tables.save())["nat"] if chain.startswith("KUBE-")]
    await proxy.sync()
    await _programmed("nft")
    await remove_other_modes("iptables", runner)
    assert not await table.exists()
    assert "KUBE-SERVICES" in (await tables.save())["nat"]
    await proxy.resync()
    await cleanup()
    assert not await table.exists()
    assert b"others" in (await runner.run(["nft", "list", "tables"])).stdout


async def test_what_ipvs_left_goes_when_another_mode_starts_and_with_the_clean_up() -> None:
    runner = RealRunner()
    ipvs, tables = RealIPVS(), RealIPTables(runner, "IPv4", "nft")
    try:
        await ipvs.servers()
    except IPVSError as error:
        pytest.skip(str(error))
    kernel = Kernel(ipvs, RealIPSets(runner), tables, RealLocalAddresses(), FakeSysctl())
    backend = IPVSBackend(kernel, Options(cluster_cidr="10.244.0.0/16"), IPVSSettings(), FakeClock())
    proxy = TestProxy(backend)
    proxy.put(node(), service(), endpoint_slice([endpoint("10.244.0.2")]))
    for remove in (
        lambda: remove_other_modes("nftables", runner),
        lambda: remove_other_modes("iptables", runner),
        lambda: cleanup(runner),
    ):
        await _programmed("nft")
        await remove_other_modes("ipvs", runner)
        assert "KUBE-PROXY-CANARY" not in (await tables.save())["nat"]
        await proxy.resync()
        await remove_other_modes("ipvs", runner)
        assert await backend.intact()
        await remove()
        held = await tables.save()
        assert not [chain for chains in held.values() for chain in chains if chain.startswith("KUBE-")]
        assert (await ipvs.servers(), device_exists(), await RealIPSets(runner).entries()) == ({}, False, {})


async def test_a_machine_without_rules_or_tools_has_nothing_to_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    await cleanup()
    monkeypatch.setenv("PATH", "/nonexistent")
    await cleanup()


async def test_a_chain_that_others_use_stays_with_what_it_needs() -> None:
    tables = await _programmed("nft")
    _iptables("nft", "-t nat -A PREROUTING -p tcp -j KUBE-MARK-MASQ")
    await cleanup()
    left = [chain for chain in (await tables.save())["nat"] if chain.startswith("KUBE-")]
    assert left == ["KUBE-MARK-MASQ"]


async def test_libiptc_sees_what_the_command_wrote_and_only_removes() -> None:
    assert loaded() == []
    await _programmed("legacy")
    tables = LegacyTables()
    found = await tables.save()
    assert "KUBE-SERVICES" in found["nat"]
    assert any(rule.endswith("-j KUBE-SERVICES") for rule in found["nat"]["PREROUTING"])
    assert await tables.has_chain("nat", "KUBE-POSTROUTING")
    writing = Transaction()
    writing.table("nat").chains["X"] = ()
    with pytest.raises(IPTablesError, match="removals only"):
        await tables.restore(writing)


async def test_the_kind_of_iptables_is_found_by_the_kubelets_hint_then_by_the_rules() -> None:
    assert await detect(RealRunner()) == ""
    _foreign("legacy")
    assert await detect(RealRunner()) == "legacy"
    _iptables("nft", "-t mangle -N KUBE-IPTABLES-HINT")
    assert await detect(RealRunner()) == "nft"
