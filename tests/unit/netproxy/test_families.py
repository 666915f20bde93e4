"""What a host must have for the ipvs mode, and how it is told what it lacks."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from component.errors import OperatorError
from component.process import FakeRunner
from netproxy import families
from netproxy.backends.ipvs.settings import IPVSSettings
from netproxy.kernel.fake_ipvs import FakeIPVS
from netproxy.kernel.ipvs import Call, IPVSError


class _NoIPVS(FakeIPVS):
    async def servers(self) -> Any:
        raise IPVSError("IPVS not supported by the kernel")


class _NoScheduler(FakeIPVS):
    async def run(self, calls: Sequence[Call]) -> Mapping[Call, str]:
        return {call: f"{call}: No such file or directory" for call in calls}


CASES: dict[str, tuple[type[FakeIPVS], str, str]] = {
    "no kernel": (_NoIPVS, "ipset v7.17, protocol version: 7", "can't use the IPVS proxier: IPVS not supported by the kernel"),
    "no scheduler": (_NoScheduler, "ipset v7.17, protocol version: 7", r"scheduler mh: .*modprobe ip_vs_mh"),
    "old ipset": (FakeIPVS, "ipset v4.3", "ipset version: 4.3 is less than min required version: 6.0"),
    "strange ipset": (FakeIPVS, "hello", "no version in 'hello'"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_a_host_without_what_ipvs_needs_is_told(
    case: tuple[type[FakeIPVS], str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, version, message = case
    monkeypatch.setattr(families, "RealIPVS", kernel)
    monkeypatch.setattr(families.ipset, "available", lambda: True)
    runner = FakeRunner(lambda argv, stdin: version.encode())
    with pytest.raises(OperatorError, match=message):
        await families.require_ipvs(runner, IPVSSettings("mh"))


async def test_the_trial_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, runner = FakeIPVS(), FakeRunner(lambda argv, stdin: b"ipset v7.17")
    monkeypatch.setattr(families, "RealIPVS", lambda: kernel)
    monkeypatch.setattr(families.ipset, "available", lambda: True)
    await families.require_ipvs(runner, IPVSSettings("lc"))
    assert [call.verb for call in kernel.calls] == ["add server", "delete server"]
    assert kernel.held == {}
