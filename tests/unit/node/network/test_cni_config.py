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


def _kernel(chains: set[str]) -> FakeRunner:
    """An iptables that has a chain once it was restored, and a jump once it was added."""

    def answer(argv: Sequence[str], stdin: bytes) -> Completed | bytes | int:
        if "-S" in argv:
            return b"-N X\n-A X\n-A X\n-A X\n" if "chain" in chains else 1
        if argv[0].endswith("-restore"):
            chains.add("chain")
        if "-C" in argv and "jump" not in chains:
            return 1
        if "-A" in argv:
            chains.add("jump")
        return 0

    return FakeRunner(answer)


async def test_masquerade_is_written_once() -> None:
    runner = _kernel(set())
    await masquerade.ensure(runner, ["10.244.1.0/24"])
    assert [argv[0] for argv, _ in runner.calls] == ["iptables", "iptables-restore", "iptables", "iptables"]
    assert b"-s 10.244.1.0/24" in runner.calls[1][1]
    runner.calls.clear()
    await masquerade.ensure(runner, ["10.244.1.0/24"])
    assert len(runner.calls) == 2


async def test_the_network_waits_for_its_cidr(tmp_path: Path) -> None:
    clock = FakeClock()
    network = PodNetwork(tmp_path, "br7", tmp_path / "ipam", _kernel(set()), clock)
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
    runner = _kernel(set())
    network = PodNetwork(tmp_path, "br7", tmp_path / "ipam", runner, FakeClock())
    network.set_cidrs(["10.244.3.0/24"])
    await network.run()
    assert runner.calls == []
