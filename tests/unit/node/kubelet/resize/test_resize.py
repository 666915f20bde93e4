"""A resize through a pod's worker: over the fake runtime, in virtual time."""

from pathlib import Path
from typing import Any

from apimachinery.meta import get_condition
from cri import errors
from tests.support.pod_workers import Bench, container, pod, running_workers


def sized(cpu: str = "1", memory: str = "1Gi", **more: Any) -> dict[str, Any]:
    return container(resources={"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory}}, **more)


def resized(old: dict[str, Any], *containers: dict[str, Any]) -> dict[str, Any]:
    metadata = {**old["metadata"], "generation": old["metadata"]["generation"] + 1}
    return {**old, "metadata": metadata, "spec": {**old["spec"], "containers": list(containers)}}


def limits(bench: Bench, name: str = "main") -> tuple[int, int]:
    """(CPU shares, memory limit) of the running container."""
    given = bench.runtime.running()[name].config.linux.resources
    return given.cpu_shares, given.memory_limit_in_bytes


def reason(bench: Bench, of: dict[str, Any], kind: str) -> str | None:
    condition = get_condition({"status": bench.status(of)}, kind)
    return condition and str(condition.get("reason", ""))


def shown(bench: Bench, of: dict[str, Any]) -> tuple[str, str]:
    """(allocated, actuated) CPU request as the status tells."""
    (status,) = bench.status(of)["containerStatuses"]
    return status["allocatedResources"]["cpu"], status["resources"]["requests"]["cpu"]


async def test_a_running_container_gets_more_without_a_restart(tmp_path: Path) -> None:
    async with running_workers(tmp_path) as bench:
        web = pod(containers=[sized()])
        bench.apply(web)
        await bench.until(lambda: "running" in bench.state(web))
        (before,) = bench.runtime.running().values()
        assert limits(bench) == (1024, 1 << 30)

        bench.apply(resized(web, sized(cpu="2", memory="2Gi")))
        await bench.until(lambda: shown(bench, web) == ("2", "2"))
        assert limits(bench) == (2048, 2 << 30)
        (after,) = bench.runtime.running().values()
        assert after.id == before.id
        assert bench.status(web)["containerStatuses"][0]["restartCount"] == 0
        assert reason(bench, web, "PodResizeInProgress") is None
        assert "ResizeCompleted" in bench.events.reasons()


async def test_a_container_that_asks_for_it_is_restarted(tmp_path: Path) -> None:
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    async with running_workers(tmp_path) as bench:
        web = pod(containers=[sized(resizePolicy=policy)])
        bench.apply(web)
        await bench.until(lambda: "running" in bench.state(web))

        bench.apply(resized(web, sized(memory="2Gi", resizePolicy=policy)))
        await bench.until(lambda: bench.status(web)["containerStatuses"][0]["restartCount"] == 1)
        await bench.until(lambda: "running" in bench.state(web))
        assert limits(bench) == (1024, 2 << 30)
        assert ("Killing", "Container main resize requires restart") in bench.events.seen
        await bench.settle()
        assert bench.status(web)["containerStatuses"][0]["restartCount"] == 1


async def test_what_the_node_can_never_give_is_said_and_not_given(tmp_path: Path) -> None:
    async with running_workers(tmp_path) as bench:
        web = pod(containers=[sized()])
        bench.apply(web)
        await bench.until(lambda: "running" in bench.state(web))

        huge = resized(web, sized(cpu="100"))
        bench.apply(huge)
        await bench.until(lambda: reason(bench, web, "PodResizePending") == "Infeasible")
        assert limits(bench) == (1024, 1 << 30)
        assert shown(bench, web) == ("1", "1")
        bench.apply(resized(huge, sized(cpu="1")))
        await bench.until(lambda: reason(bench, web, "PodResizePending") is None)


async def test_what_must_wait_is_given_when_there_is_room(tmp_path: Path) -> None:
    async with running_workers(tmp_path) as bench:
        web, other = pod(containers=[sized()]), pod("other", containers=[sized(cpu="6")])
        bench.apply(web)
        bench.apply(other)
        await bench.until(lambda: "running" in bench.state(web) and "running" in bench.state(other))

        bench.apply(resized(web, sized(cpu="4")))
        await bench.until(lambda: reason(bench, web, "PodResizePending") == "Deferred")
        late = pod("late", containers=[sized(cpu="1")])
        bench.apply(late)
        await bench.until(lambda: "running" in bench.state(late))  # it counts what web has, not what web wants
        bench.delete(other, grace=1)
        bench.workers.nudge("uid-web")
        await bench.until(lambda: shown(bench, web) == ("4", "4"))
        assert reason(bench, web, "PodResizePending") is None


async def test_a_runtime_that_refuses_is_asked_again(tmp_path: Path) -> None:
    async with running_workers(tmp_path) as bench:
        web = pod(containers=[sized()])
        bench.apply(web)
        await bench.until(lambda: "running" in bench.state(web))

        bench.runtime.fail("update_container_resources", errors.RuntimeServiceError("device or resource busy"))
        bench.apply(resized(web, sized(memory="512Mi")))
        await bench.until(lambda: reason(bench, web, "PodResizeInProgress") == "Error")
        assert "device or resource busy" in str(get_condition({"status": bench.status(web)}, "PodResizeInProgress"))
        await bench.advance_until(lambda: limits(bench) == (1024, 512 << 20), 15)
        await bench.until(lambda: reason(bench, web, "PodResizeInProgress") is None)


async def test_another_kubelet_knows_what_was_given(tmp_path: Path) -> None:
    async with running_workers(tmp_path) as bench:
        web = pod(containers=[sized()])
        bench.apply(web)
        await bench.until(lambda: "running" in bench.state(web))
        grown = resized(web, sized(cpu="2"))
        bench.apply(grown)
        await bench.until(lambda: shown(bench, web) == ("2", "2"))
        runtime, told = bench.runtime, bench.status(web)
    updates = [name for name, _ in runtime.calls if name == "update_container_resources"]

    huge = {**resized(grown, sized(cpu="100")), "status": told}
    async with running_workers(tmp_path, runtime) as bench:
        bench.apply(huge)
        await bench.until(lambda: reason(bench, web, "PodResizePending") == "Infeasible")
        assert shown(bench, web) == ("2", "2")
    assert [name for name, _ in runtime.calls if name == "update_container_resources"] == updates


async def test_a_kubelet_that_was_away_resizes_when_it_comes_back(tmp_path: Path) -> None:
    async with running_workers(tmp_path) as bench:
        web = pod(containers=[sized()])
        bench.apply(web)
        await bench.until(lambda: "running" in bench.state(web))
        runtime = bench.runtime

    async with running_workers(tmp_path, runtime) as bench:
        bench.apply(resized(web, sized(cpu="3")))
        await bench.until(lambda: bench.status(web) and shown(bench, web) == ("3", "3"))
        assert limits(bench) == (3072, 1 << 30)
