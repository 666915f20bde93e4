"""The pod network's configuration and packet rules."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

from component.clock import FakeClock
from component.process import Completed, FakeRunner
from node.network import cni_config, masquerade
from node.network.manager import PodNetwork


def test_a_bridge_for_both_families() -> None:
    made = cni_config.conflist(["10.244.1.0/24", "fd00::/64"], "br7", Path("/x"))
    bridge, portmap = made["plugins"]
    assert bridge["bridge"] == "br7"
    assert bridge["ipam"]["ranges"] == [[{"subnet": "10.244.1.0/24"}], [{"subnet": "fd00::/64"}]]
    assert bridge["ipam"]["routes"] == [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]
    assert portmap["capabilities"] == {"portMappings": True}


def test_writing_twice_changes_nothing(tmp_path: Path) -> None:
    made = cni_config.conflist(["10.244.1.0/24"], "br7", tmp_path)
    assert cni_config.write(tmp_path / "net.d", made)
    assert not cni_config.write(tmp_path / "net.d", made)
    assert [entry.name for entry in (tmp_path / "net.d").iterdir()] == [cni_config.FILE_NAME]


def _kernel(chains: dict[str, list[str]]) -> FakeRunner:
    """An iptables that lists what it was given last, and has a jump once it was added."""

    def answer(argv: Sequence[str], stdin: bytes) -> Completed | bytes | int:
        if "-S" in argv:
            return "\n".join(["-N X", *chains["chain"], ""]).encode() if "chain" in chains else 1
        if argv[0].endswith("-restore"):
            chains["chain"] = [line for line in stdin.decode().splitlines() if line.startswith("-A")]
        if "-C" in argv and "jump" not in chains:
            return 1
        if "-A" in argv:
            chains["jump"] = []
        return 0

    return FakeRunner(answer)


async def test_masquerade_is_written_once() -> None:
    runner = _kernel({})
    await masquerade.ensure(runner, ["10.244.1.0/24"])
    assert [argv[0] for argv, _ in runner.calls] == ["iptables", "iptables-restore", "iptables", "iptables"]
    assert b"-s 10.244.1.0/24" in runner.calls[1][1]
    runner.calls.clear()
    await masquerade.ensure(runner, ["10.244.1.0/24"])
    assert len(runner.calls) == 2


async def test_other_nodes_pods_see_the_pods_own_addresses() -> None:
    chains: dict[str, list[str]] = {}
    runner = _kernel(chains)
    await masquerade.ensure(runner, ["10.244.1.0/24"], ["10.244.2.0/24", "fd00:2::/64"])
    kept = [line.split()[3] for line in chains["chain"] if line.endswith("RETURN")]
    assert kept == ["10.244.1.0/24", "10.244.2.0/24", "224.0.0.0/4"]
    assert [line.split()[3] for line in chains["chain"] if line.endswith("MASQUERADE")] == ["10.244.1.0/24"]
    await masquerade.ensure(runner, ["10.244.1.0/24"], ["10.244.3.0/24"])
    assert "10.244.3.0/24" in chains["chain"][1], "as many rules, but another node"


async def test_the_packet_rules_follow_the_nodes(tmp_path: Path) -> None:
    clock, chains = FakeClock(), dict[str, list[str]]()
    network = PodNetwork(tmp_path, "br7", tmp_path / "ipam", _kernel(chains), clock)
    task = asyncio.ensure_future(network.run())
    network.set_cidrs(["10.244.3.0/24"])
    for other in ("10.244.4.0/24", "10.244.5.0/24"):
        network.set_others([other])
        for _ in range(2000):
            await asyncio.sleep(0.002)
            if any(other in line for line in chains.get("chain", ())):
                break
        assert other in chains["chain"][1]
    del chains["chain"]
    await clock.settle()
    await clock.advance(61)
    assert "10.244.5.0/24" in chains["chain"][1], "somebody else's hand is mended"
    task.cancel()
    await asyncio.wait({task})


async def test_the_network_waits_for_its_cidr(tmp_path: Path) -> None:
    clock = FakeClock()
    network = PodNetwork(tmp_path, "br7", tmp_path / "ipam", _kernel({}), clock)
    task = asyncio.ensure_future(network.run())
    await clock.settle()
    assert not list(tmp_path.iterdir())
    network.set_cidrs(["10.244.3.0/24"])
    for _ in range(2000):
        await asyncio.sleep(0.002)
        if (tmp_path / cni_config.FILE_NAME).exists():
            break
    written = json.loads((tmp_path / cni_config.FILE_NAME).read_text())
    assert written["plugins"][0]["ipam"]["ranges"] == [[{"subnet": "10.244.3.0/24"}]]
    task.cancel()
    await asyncio.wait({task})


async def test_somebody_elses_network_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "10-other.conflist").write_text("{}")
    runner = _kernel({})
    network = PodNetwork(tmp_path, "br7", tmp_path / "ipam", runner, FakeClock())
    network.set_cidrs(["10.244.3.0/24"])
    await network.run()
    assert runner.calls == []
