"""A pod's way past the resource managers: over the fake runtime, in virtual time."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from apimachinery.meta import uid_of
from node.kubelet.runtime.resources import Pinning
from tests.support.pod_workers import pod, running_workers


class Managers:
    """Refuses with ``refusal``; records."""

    def __init__(self) -> None:
        self.refusal: tuple[str, str] | None = None
        self.admitted: list[str] = []
        self.forgotten: list[str] = []

    async def admit(self, wanted: Any) -> tuple[str, str] | None:
        self.admitted.append(uid_of(wanted))
        return self.refusal

    def forget(self, uid: str) -> None:
        self.forgotten.append(uid)

    def health(self, uid: str, container: str) -> list[Any]:
        return []


async def test_a_pod_that_cannot_be_given_what_it_asks_for_has_failed(tmp_path: Path) -> None:
    managers, web = Managers(), pod("web")
    managers.refusal = ("TopologyAffinityError", "Resources cannot be allocated with Topology locality")
    async with running_workers(tmp_path) as bench:
        bench.workers._tools = replace(bench.tools, managers=managers)
        bench.apply(web)
        await bench.until(lambda: bench.status(web).get("phase") == "Failed")

        status = bench.status(web)
        assert status["reason"] == "TopologyAffinityError"
        assert status["message"] == "Pod was rejected: Resources cannot be allocated with Topology locality"
        assert ("TopologyAffinityError", managers.refusal[1]) in bench.events.seen
        assert not bench.runtime.sandboxes
        assert managers.forgotten == ["uid-web"]


async def test_a_pod_is_admitted_once_and_forgotten_when_it_has_ended(tmp_path: Path) -> None:
    managers, web = Managers(), pod("web")
    async with running_workers(tmp_path) as bench:
        bench.workers._tools = replace(bench.tools, managers=managers)
        bench.apply(web)
        await bench.until(lambda: bench.runtime.running())
        await bench.advance(120)
        assert managers.admitted == ["uid-web"]
        assert managers.forgotten == []

        bench.delete(web, grace=1)
        await bench.advance_until(lambda: managers.forgotten)


async def test_what_runs_is_not_refused(tmp_path: Path) -> None:
    """A predecessor took it, and this kubelet has lost the state."""
    web = pod("web")
    async with running_workers(tmp_path) as bench:
        bench.apply(web)
        await bench.until(lambda: bench.runtime.running())
        runtime = bench.runtime
    managers = Managers()
    managers.refusal = ("UnexpectedAdmissionError", "no")
    async with running_workers(tmp_path, runtime) as bench:
        bench.workers._tools = replace(bench.tools, managers=managers)
        bench.apply(web)
        await bench.until(lambda: bench.status(web).get("phase") == "Running")
        assert len(runtime.running()) == 1


async def test_containers_are_made_where_they_belong(tmp_path: Path) -> None:
    web = pod("web")
    async with running_workers(tmp_path) as bench:
        host = replace(bench.tools.host, pinning=lambda wanted, container: Pinning("1-2", "0", unlimited=True))
        bench.tools.manager._containers._host = host
        bench.apply(web)
        await bench.until(lambda: bench.runtime.running())
        made = next(iter(bench.runtime.running().values())).config.linux.resources
        assert (made.cpuset_cpus, made.cpuset_mems, made.cpu_quota) == ("1-2", "0", -1)
