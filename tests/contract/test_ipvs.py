"""Virtual servers, sets and addresses of services, real and in memory: what is taken, what is refused."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from component.process import RealRunner
from netproxy.kernel.addresses import AddressError, LocalAddresses, RealLocalAddresses, device_exists, remove_device
from netproxy.kernel.fake_ipvs import FakeAddresses, FakeIPSets, FakeIPVS
from netproxy.kernel.ipset import IPSetError, IPSets, RealIPSets, SetChange
from netproxy.kernel.ipvs import IPVS, PERSISTENT, Call, Held, IPVSError, Real, RealIPVS, RealState, Server, Settings
from tests.support.netns import own_network_namespace

pytestmark = pytest.mark.root
KINDS = [("real", "IPv4"), ("real", "IPv6"), ("fake", "IPv4")]
ADDRESS = {"IPv4": "10.96.0.1", "IPv6": "fd00:10:96::1"}
POD = {"IPv4": "10.244.0.2", "IPv6": "fd00:10:244::2"}


@pytest.fixture(params=KINDS, ids="-".join)
def kind(request: pytest.FixtureRequest) -> Iterator[tuple[str, Any]]:
    with own_network_namespace():
        yield request.param


async def _ipvs(kind: tuple[str, Any]) -> IPVS:
    if kind[0] == "fake":
        return FakeIPVS()
    real = RealIPVS(kind[1])
    try:
        await real.servers()
    except IPVSError as error:
        pytest.skip(str(error))
    return real


async def test_servers_are_added_changed_and_deleted_with_their_real_ones(kind: tuple[str, Any]) -> None:
    ipvs = await _ipvs(kind)
    server, real = Server(ADDRESS[kind[1]], "TCP", 80), Real(POD[kind[1]], 8080)
    udp = Server(ADDRESS[kind[1]], "UDP", 80)
    sticky = Settings("sh", PERSISTENT, 100)
    assert await ipvs.run([Call("add server", server, Settings("rr")), Call("add real", server, real=real)]) == {}
    assert await ipvs.run([Call("add server", udp, Settings("lc"))]) == {}
    assert await ipvs.servers() == {server: Held(Settings("rr"), {real: RealState(1)}), udp: Held(Settings("lc"))}
    assert await ipvs.run([Call("set server", server, sticky), Call("set real", server, real=real, weight=0)]) == {}
    assert await ipvs.servers() == {server: Held(sticky, {real: RealState(0)}), udp: Held(Settings("lc"))}
    assert await ipvs.run([Call("delete real", server, real=real), Call("delete server", udp)]) == {}
    assert await ipvs.servers() == {server: Held(sticky)}
    assert await ipvs.reals(udp) == {}


async def test_servers_that_are_refused_stop_no_other(kind: tuple[str, Any]) -> None:
    ipvs = await _ipvs(kind)
    server, other = Server(ADDRESS[kind[1]], "TCP", 80), Server(ADDRESS[kind[1]], "TCP", 81)
    real = Real(POD[kind[1]], 8080)
    assert await ipvs.run([Call("add server", server, Settings())]) == {}
    impossible = [
        Call("add server", server, Settings()),
        Call("delete real", server, real=real),
        Call("set real", server, real=real),
        Call("delete server", other),
        Call("add real", other, real=real),
        Call("add server", Server(ADDRESS[kind[1]], "UDP", 80), Settings("rr", PERSISTENT, 10**12)),
    ]
    refused = await ipvs.run([*impossible, Call("add server", other, Settings())])
    assert set(refused) == set(impossible)
    assert all(str(call) in why for call, why in refused.items())
    assert set(await ipvs.servers()) == {server, other}


async def test_sets_are_made_once_and_filled(kind: tuple[str, Any]) -> None:
    sets: IPSets = FakeIPSets() if kind[0] == "fake" else RealIPSets(RealRunner(), kind[1])
    try:
        await sets.entries()
    except IPSetError as error:
        pytest.skip(str(error))
    vip, pod = f"{ADDRESS[kind[1]]},tcp:80", f"{POD[kind[1]]},sctp:80,{POD[kind[1]]}"
    made = {"KUBE-X-IP": "hash:ip,port", "KUBE-X-LOOP": "hash:ip,port,ip", "KUBE-X-PORT": "bitmap:port"}
    await sets.restore(SetChange(made, added={"KUBE-X-IP": [vip], "KUBE-X-LOOP": [pod], "KUBE-X-PORT": ["30080", "1"]}))
    await sets.restore(SetChange(made, added={"KUBE-X-IP": [vip]}, deleted={"KUBE-X-PORT": ["1", "2"]}))
    held = {"KUBE-X-IP": frozenset({vip}), "KUBE-X-LOOP": frozenset({pod}), "KUBE-X-PORT": frozenset({"30080"})}
    assert await sets.entries() == held
    for wrong in (SetChange(added={"KUBE-NONE": ["1"]}), SetChange({"K" * 32: "hash:ip"})):
        with pytest.raises(IPSetError):
            await sets.restore(wrong)
    await sets.destroy([*made, "KUBE-NONE"])
    assert await sets.entries() == {}


async def test_addresses_are_bound_to_the_device_and_unbound(kind: tuple[str, Any]) -> None:
    if kind[0] == "real":
        await _ipvs(kind)
    addresses: LocalAddresses = FakeAddresses(set()) if kind[0] == "fake" else RealLocalAddresses(kind[1])
    assert (await addresses.look()).bound is None
    for _ in range(2):
        await addresses.ensure_device()
        assert await addresses.change([ADDRESS[kind[1]]], [POD[kind[1]]]) == {}
    found = await addresses.look()
    assert (found.node, found.bound) == (frozenset(), frozenset({ADDRESS[kind[1]]}))
    assert await addresses.change([], [ADDRESS[kind[1]]]) == {}
    assert (await addresses.look()).bound == frozenset()
    if kind[0] == "real":
        await remove_device()
        await remove_device()
        assert not device_exists()


async def test_a_kernel_without_dummy_devices_is_told(kind: tuple[str, Any]) -> None:
    addresses = RealLocalAddresses(kind[1])
    with contextlib.suppress(AddressError):
        await addresses.ensure_device()
        pytest.skip("this kernel has them")
    with pytest.raises(AddressError, match="this kernel has no dummy devices"):
        await addresses.ensure_device()
