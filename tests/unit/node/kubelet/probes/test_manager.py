"""Probes seen from the pod: readiness in its status, liveness as restarts, all of it across a kubelet's restart."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cri.fake import FakeContainerd
from cri.interface import ExecResult
from node.kubelet.probes import grpc_health
from tests.support.pod_workers import Bench, container, pod, running_workers


def _probed(**probes: Any) -> dict[str, Any]:
    check = {"exec": {"command": ["check"]}, "periodSeconds": 1, "failureThreshold": 1}
    return pod(containers=[container(**{f"{kind}Probe": {**check, **more} for kind, more in probes.items()})])


def _answer(bench: Bench, code: int) -> None:
    bench.runtime.run = lambda c, command: ExecResult(code, b"said so", b"")


def _ready(bench: Bench, wanted: dict[str, Any]) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in bench.status(wanted).get("conditions", []))


async def test_readiness_follows_the_probe(tmp_path: Path) -> None:
    async with running_workers(tmp_path) as bench:
        _answer(bench, 1)
        web = _probed(readiness={})
        bench.apply(web)
        await bench.until(lambda: ("Unhealthy", "Readiness probe failed: said so") in bench.events.seen)
        assert "running" in bench.state(web)
        assert not _ready(bench, web)
        _answer(bench, 0)
        await bench.advance_until(lambda: _ready(bench, web), 5)
        _answer(bench, 1)
        await bench.advance_until(lambda: not _ready(bench, web), 5)
        assert bench.status(web)["containerStatuses"][0]["restartCount"] == 0


async def test_a_failed_liveness_probe_restarts(tmp_path: Path) -> None:
    async with running_workers(tmp_path) as bench:
        web = _probed(liveness={"terminationGracePeriodSeconds": 4})
        bench.apply(web)
        await bench.until(lambda: bench.runtime.running())
        _answer(bench, 1)
        await bench.advance_until(lambda: ("stop_container", "main 4") in bench.runtime.calls, 5)
        assert ("Killing", "Container main failed liveness probe, will be restarted") in bench.events.seen
        _answer(bench, 0)
        await bench.until(lambda: bench.status(web)["containerStatuses"][0]["restartCount"] >= 1)


async def test_startup_holds_the_others_back(tmp_path: Path) -> None:
    async with running_workers(tmp_path) as bench:
        _answer(bench, 1)
        web = _probed(startup={"failureThreshold": 30}, readiness={})
        bench.apply(web)
        await bench.until(lambda: "running" in bench.state(web))
        await bench.advance(3)
        assert bench.status(web)["containerStatuses"][0]["started"] is False
        assert not [note for reason, note in bench.events.seen if note.startswith("Readiness")]
        _answer(bench, 0)
        await bench.advance_until(lambda: _ready(bench, web), 5)
        assert bench.status(web)["containerStatuses"][0]["started"] is True


async def test_a_restarted_kubelet_keeps_pods_ready(tmp_path: Path) -> None:
    runtime = FakeContainerd()
    web = _probed(readiness={}, startup={}, liveness={})
    async with running_workers(tmp_path, runtime) as bench:
        bench.apply(web)
        await bench.until(lambda: _ready(bench, web))
        reported = {**web, "status": bench.status(web)}
    async with running_workers(tmp_path, runtime) as bench:
        bench.apply(reported)
        await bench.until(lambda: "running" in bench.state(web))
        assert _ready(bench, web)
        assert bench.api.patches == []


async def test_readiness_is_still_probed_while_the_pod_ends(tmp_path: Path) -> None:
    async with running_workers(tmp_path) as bench:
        web = _probed(readiness={}, liveness={})
        web["spec"]["containers"][0]["lifecycle"] = {"preStop": {"sleep": {"seconds": 5}}}
        bench.apply(web)
        await bench.until(lambda: _ready(bench, web))
        bench.delete(web)
        await bench.until(lambda: "Killing" in bench.events.reasons())
        _answer(bench, 1)
        await bench.advance(3)
        notes = [note for reason, note in bench.events.seen if reason == "Unhealthy"]
        assert notes
        assert all(note.startswith("Readiness") for note in notes)


@dataclass(slots=True)
class SlowNetwork(FakeContainerd):
    """Taking down a pod's network takes five seconds."""

    async def stop_pod_sandbox(self, sandbox_id: str) -> None:
        await self.clock.sleep(5)
        await FakeContainerd.stop_pod_sandbox(self, sandbox_id)


async def test_a_container_that_was_stopped_is_asked_nothing_more(tmp_path: Path) -> None:
    """That it does not answer while the rest of its pod is taken down is no news."""
    async with running_workers(tmp_path, SlowNetwork()) as bench:
        web = _probed(readiness={}, liveness={})
        bench.apply(web)
        await bench.until(lambda: _ready(bench, web))
        bench.delete(web, grace=1)
        await bench.until(lambda: any(method == "stop_container" for method, _ in bench.runtime.calls))
        _answer(bench, 1)
        asked = [method for method, _ in bench.runtime.calls].count("exec_sync")
        await bench.advance(4)
        assert bench.runtime.sandboxes, "its network is still there"
        assert [method for method, _ in bench.runtime.calls].count("exec_sync") == asked
        assert "Unhealthy" not in bench.events.reasons()
        await bench.advance_until(lambda: not bench.runtime.sandboxes, 10)


def test_grpc_health_messages() -> None:
    assert grpc_health.encode_request("") == b""
    assert grpc_health.encode_request("abc") == b"\x0a\x03abc"
    assert grpc_health.encode_request("x" * 200)[:3] == b"\x0a\xc8\x01"
    assert grpc_health.decode_response(b"\x08\x01") == 1
    assert grpc_health.decode_response(b"") == 0
