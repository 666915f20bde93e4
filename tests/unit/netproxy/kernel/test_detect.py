"""Which iptables a host uses: the one with the kubelet's hint, else with more rules, else the distribution's default."""

from collections.abc import Sequence

import pytest

from component.process import Completed, FakeRunner
from netproxy.kernel import iptables

HINT = b"*mangle\n:KUBE-IPTABLES-HINT - [0:0]\nCOMMIT\n"
RULES = b"*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -j DROP\nCOMMIT\n"


@pytest.mark.parametrize(
    ("nft", "legacy", "expected"),
    [
        pytest.param(HINT, RULES, "nft", id="the hint decides"),
        pytest.param(b"", HINT, "legacy", id="the hint decides for legacy too"),
        pytest.param(b"", RULES, "legacy", id="more rules"),
        pytest.param(b"", b"", "", id="nothing known: the default"),
        pytest.param(RULES, None, "nft", id="the other cannot be read"),
        pytest.param(None, None, "", id="neither can be read"),
    ],
)
async def test_detection(nft: bytes | None, legacy: bytes | None, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iptables, "available", lambda family, mode: True)

    def answer(argv: Sequence[str], stdin: bytes) -> Completed | bytes | int:
        saved = legacy if "legacy" in argv[0] else nft
        return -11 if saved is None else saved

    assert await iptables.detect(FakeRunner(answer)) == expected
