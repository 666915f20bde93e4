"""A pod's life through its worker: started, kept, restarted, adopted, ended. Over the fake runtime, in virtual time."""

import asyncio
from pathlib import Path

import pytest

from cri import errors
from cri.api import runtime_v1_pb2 as pb
from cri.fake import Behaviour, FakeContainerd
from node.kubelet.interface import VolumeError
from node.kubelet.pod_status import Failure
from tests.support.pod_workers import IMAGE, container, pod, running_workers


async def test_a_pod_is_started_and_reported(tmp_path: Path) -> None:
    async with running_workers(tmp_path) as bench:
        web = pod()
        bench.apply(web)
        await bench.until(lambda: "running" in bench.state(web))
        status = bench.status(web)
        assert status["phase"] == "Running"
        assert status["podIP"].startswith("10.244.")
        assert status["containerStatuses"][0]["containerID"].startswith("containerd://")
        assert bench.events.reasons() == ["Pulled", "Created", "Started"]
        assert bench.volumes.mounted == ["web"]
        (created,) = bench.runtime.containers.values()
        assert created.config.labels["io.kubernetes.pod.uid"] == "uid-web"
        assert created.config.log_path == "main/0.log"


async def test_an_exited_container_is_restarted_at_once_then_with_back_off(tmp_path: Path) -> None:
    async with running_workers(tmp_path) as bench:
        web = pod()
        bench.apply(web)
        await bench.until(lambda: bench.runtime.running())
        for restart, wait in ((1, 0), (2, 10), (3, 20), (4, 40)):
            bench.runtime.exit(bench.runtime.running()["main"].id, code=1)
            await bench.relist()
            if wait:
                await bench.until(lambda: bench.state(web).get("waiting", {}).get("reason") == "CrashLoopBackOff")
                assert f"back-off {wait}s restarting failed container=main" in bench.state(web)["waiting"]["message"]
                assert not bench.runtime.running()
                await bench.advance(wait - 1)
                assert not bench.runtime.running()
                await bench.advance(1.5)
            await bench.until(lambda: bench.runtime.running())
            await bench.until(lambda want=restart: bench.status(web)["containerStatuses"][0]["restartCount"] == want)  # type: ignore[misc]
        assert bench.status(web)["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1
        assert len(bench.runtime.containers) == 2, "only the last dead instance is kept"


@pytest.mark.parametrize("jump", [-7200, 7200])
async def test_setting_the_clock_does_not_change_a_back_off(tmp_path: Path, jump: float) -> None:
    async with running_workers(tmp_path) as bench:
        web = pod()
        bench.apply(web)
        for _ in range(2):
            await bench.until(lambda: bench.runtime.running())
            bench.runtime.exit(bench.runtime.running()["main"].id, code=1)
            await bench.relist()
        await bench.until(lambda: bench.state(web).get("waiting", {}).get("reason") == "CrashLoopBackOff")
        bench.clock.jump(jump)
        bench.workers.nudge("uid-web")
        await bench.settle()
        assert not bench.runtime.running()
        await bench.advance(11)
        await bench.until(lambda: bench.runtime.running())


async def test_a_clock_set_back_doubles_no_container(tmp_path: Path) -> None:
    async with running_workers(tmp_path) as bench:
        web = pod(containers=[container(readinessProbe={"exec": {"command": ["true"]}, "initialDelaySeconds": 5})])
        bench.apply(web)
        await bench.until(lambda: bench.runtime.running())
        bench.clock.jump(-7200)
        bench.runtime.exit(bench.runtime.running()["main"].id, code=1)
        await bench.relist()
        await bench.until(lambda: bench.runtime.running())
        for _ in range(3):
            bench.workers.nudge("uid-web")
            await bench.relist()
        assert len(bench.runtime.containers) == 2
        await bench.until(lambda: "running" in bench.state(web))
        await bench.advance_until(lambda: bench.status(web)["containerStatuses"][0]["ready"], 30)


async def test_a_dead_sandbox_is_stopped_for_its_address(tmp_path: Path) -> None:
    """Only StopPodSandbox gives an address back; after a reboot every sandbox is dead."""
    async with running_workers(tmp_path) as bench:
        bench.apply(pod())
        await bench.until(lambda: bench.runtime.running())
        (old,) = bench.runtime.sandboxes
        bench.runtime.sandboxes[old].ready = False
        bench.runtime.exit(bench.runtime.running()["main"].id, code=137)
        await bench.relist()
        await bench.until(lambda: len(bench.runtime.sandboxes) == 2 and bench.runtime.running())
        assert ("stop_pod_sandbox", old) in bench.runtime.calls


async def test_a_job_like_pod_ends_by_itself(tmp_path: Path) -> None:
    for code, phase in ((0, "Succeeded"), (3, "Failed")):
        async with running_workers(tmp_path / phase) as bench:
            job = pod("job", restartPolicy="Never")
            bench.apply(job)
            await bench.until(lambda: bench.runtime.running())
            bench.runtime.exit(bench.runtime.running()["main"].id, code=code)
            await bench.relist()
            await bench.until(lambda: bench.volumes.unmounted == ["uid-job"])
            assert bench.status(job)["phase"] == phase
            assert bench.state(job)["terminated"]["exitCode"] == code
            assert not any(sandbox.ready for sandbox in bench.runtime.sandboxes.values())
            assert bench.runtime.containers, "kept for its logs until the pod is deleted"
            bench.delete(job, grace=0)
            await bench.until(lambda: bench.api.deleted == ["uid-job"])
            await bench.until(lambda: not bench.runtime.containers)


async def test_a_deleted_pod_is_stopped_removed_and_let_go(tmp_path: Path) -> None:
    async with running_workers(tmp_path) as bench:
        bench.runtime.behave = lambda config: Behaviour(stop_seconds=5)
        web = pod()
        bench.apply(web)
        await bench.until(lambda: bench.runtime.running())
        ending = bench.delete(web, grace=30)
        await bench.until(lambda: ("stop_container", "main 30") in bench.runtime.calls)
        assert "Killing" in bench.events.reasons()
        await bench.advance(4)
        assert not bench.api.deleted
        await bench.advance(1.5)
        await bench.until(lambda: bench.api.deleted == ["uid-web"])
        bench.manager.remove("uid-web")
        await bench.until(lambda: not bench.runtime.sandboxes and not bench.workers.knows("uid-web"))
        last = [body for name, body in bench.api.patches if "containerStatuses" in body][-1]
        assert last["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 143
        assert set(bench.cgroups.removed) == {"uid-web"}
        assert not (tmp_path / "kubelet/pods/uid-web").exists()
        assert ending["metadata"]["uid"] == "uid-web"


async def test_a_shorter_grace_period_interrupts_a_longer_one(tmp_path: Path) -> None:
    async with running_workers(tmp_path) as bench:
        bench.runtime.behave = lambda config: Behaviour(stop_seconds=1000)
        web = pod()
        bench.apply(web)
        await bench.until(lambda: bench.runtime.running())
        ending = bench.delete(web, grace=600)
        await bench.until(lambda: ("stop_container", "main 600") in bench.runtime.calls)
        bench.delete(ending, grace=2)
        await bench.until(lambda: ("stop_container", "main 2") in bench.runtime.calls)
        await bench.advance(2.5)
        await bench.until(lambda: bench.api.deleted == ["uid-web"])


async def test_a_pre_stop_sleep_delays_the_signal_and_counts_against_the_grace(tmp_path: Path) -> None:
    async with running_workers(tmp_path) as bench:
        hook = {"preStop": {"sleep": {"seconds": 5}}}
        web = pod(containers=[container(lifecycle=hook)])
        bench.apply(web)
        await bench.until(lambda: "running" in bench.state(web))
        bench.delete(web, grace=30)
        await bench.until(lambda: "Killing" in bench.events.reasons())
        await bench.advance(4.5)
        assert bench.runtime.running(), "it serves during preStop"
        assert not [call for call in bench.runtime.calls if call[0] == "stop_container"]
        await bench.advance(1)
        await bench.until(lambda: ("stop_container", "main 25") in bench.runtime.calls)


async def test_a_restarted_kubelet_adopts_what_runs(tmp_path: Path) -> None:
    runtime = FakeContainerd()
    web = pod()
    async with running_workers(tmp_path, runtime) as bench:
        bench.apply(web)
        await bench.until(lambda: "running" in bench.state(web))
        reported = {**web, "status": bench.status(web)}
    before = {cid: c.started_at for cid, c in runtime.containers.items()}
    runtime.calls.clear()
    async with running_workers(tmp_path, runtime) as bench:
        bench.apply(reported)
        await bench.until(lambda: "running" in bench.state(web))
        await bench.settle()
        assert {cid: c.started_at for cid, c in runtime.containers.items()} == before
        assert not [call for call in runtime.calls if call[0].startswith(("run_pod", "create_", "start_", "stop_"))]
        assert bench.api.patches == [], "nothing changed, nothing is sent"


async def test_a_container_that_was_created_but_not_started_is_started(tmp_path: Path) -> None:
    runtime = FakeContainerd()
    async with running_workers(tmp_path, runtime) as bench:
        bench.apply(pod())
        await bench.until(lambda: runtime.running())
    (only,) = runtime.containers.values()
    only.state = pb.CONTAINER_CREATED
    async with running_workers(tmp_path, runtime) as bench:
        bench.apply(pod())
        await bench.until(lambda: runtime.running())
        assert list(runtime.containers) == [only.id]


async def test_a_pod_nobody_wants_is_cleared(tmp_path: Path) -> None:
    runtime = FakeContainerd()
    async with running_workers(tmp_path, runtime) as bench:
        bench.apply(pod())
        await bench.until(lambda: runtime.running())
    async with running_workers(tmp_path, runtime) as bench:
        bench.workers.clear("uid-web")
        await bench.until(lambda: not runtime.sandboxes)
        assert ("stop_container", "main 1") in runtime.calls
        assert bench.api.deleted == []


async def test_a_dead_sandbox_is_replaced(tmp_path: Path) -> None:
    async with running_workers(tmp_path) as bench:
        web = pod()
        bench.apply(web)
        await bench.until(lambda: bench.runtime.running())
        (first,) = bench.runtime.sandboxes
        await bench.runtime.stop_pod_sandbox(first)
        await bench.relist()
        await bench.until(lambda: len(bench.runtime.sandboxes) == 2 and bench.runtime.running())
        assert "SandboxChanged" in bench.events.reasons()
        await bench.until(lambda: "running" in bench.state(web))


async def test_a_failing_sandbox_is_tried_again(tmp_path: Path) -> None:
    async with running_workers(tmp_path) as bench:
        bench.runtime.fail("run_pod_sandbox", errors.RuntimeServiceError("no network"), times=2)
        web = pod()
        bench.apply(web)
        await bench.until(lambda: "FailedCreatePodSandBox" in bench.events.reasons())
        assert bench.state(web)["waiting"]["reason"] == "ContainerCreating"
        await bench.advance_until(lambda: bench.runtime.running(), seconds=5)


async def test_a_missing_volume_holds_the_pod_back(tmp_path: Path) -> None:
    async with running_workers(tmp_path) as bench:
        bench.volumes.failure = VolumeError('MountVolume.SetUp failed for volume "x" : configmap "y" not found')
        bench.apply(pod())
        await bench.until(lambda: "FailedMount" in bench.events.reasons())
        assert not bench.runtime.sandboxes
        bench.volumes.failure = None
        await bench.advance_until(lambda: bench.runtime.running(), seconds=5)


async def test_pods_wait_for_the_network(tmp_path: Path) -> None:
    async with running_workers(tmp_path) as bench:
        bench.network_problem = "container runtime network not ready"
        bench.apply(pod())
        bench.apply(pod("host", hostNetwork=True))
        await bench.until(lambda: "NetworkNotReady" in bench.events.reasons())
        await bench.until(lambda: len(bench.runtime.sandboxes) == 1)
        bench.network_problem = ""
        bench.workers.nudge("uid-web")
        await bench.until(lambda: len(bench.runtime.sandboxes) == 2)


async def test_images_that_cannot_be_had_are_explained(tmp_path: Path) -> None:
    async with running_workers(tmp_path) as bench:
        absent = pod("absent", containers=[container(image="example.org/nothing:1")])
        never = pod("never", containers=[container(image="example.org/nothing:1", imagePullPolicy="Never")])
        wrong = pod("wrong", containers=[container(image="Not A Name")])
        for each in (absent, never, wrong):
            bench.apply(each)

        def reason(each: dict[str, object]) -> object:
            return bench.state(each).get("waiting", {}).get("reason")

        await bench.until(lambda: reason(absent) == "ErrImagePull")
        await bench.until(lambda: reason(never) == "ErrImageNeverPull")
        await bench.until(lambda: reason(wrong) == "InvalidImageName")
        await bench.advance_until(lambda: reason(absent) == "ImagePullBackOff", 2)
        bench.runtime.registry.add("example.org/nothing:1")
        await bench.advance_until(lambda: "running" in bench.state(absent))
        pulled = [note for kind, note in bench.events.seen if kind == "Pulled"]
        assert any(note.startswith('Successfully pulled image "example.org/nothing:1" in ') for note in pulled)


async def test_init_containers_run_in_order_before_the_others(tmp_path: Path) -> None:
    async with running_workers(tmp_path) as bench:
        web = pod(initContainers=[container("one"), container("two")])
        bench.apply(web)
        for name in ("one", "two"):
            await bench.until(lambda want=name: list(bench.runtime.running()) == [want])  # type: ignore[misc]
            assert bench.state(web, "main").get("waiting", {"reason": "PodInitializing"})["reason"] == "PodInitializing"
            bench.runtime.exit(bench.runtime.running()[name].id)
            await bench.relist()
        await bench.until(lambda: list(bench.runtime.running()) == ["main"])
        await bench.until(lambda: bench.status(web)["phase"] == "Running")


async def test_sidecars_start_first_and_stop_last(tmp_path: Path) -> None:
    async with running_workers(tmp_path) as bench:
        web = pod(initContainers=[container("side", restartPolicy="Always")])
        bench.apply(web)
        await bench.until(lambda: set(bench.runtime.running()) == {"side", "main"})
        assert [argument for method, argument in bench.runtime.calls if method == "start_container"] == ["side", "main"]
        bench.delete(web)
        await bench.until(lambda: bench.api.deleted)
        stops = [argument.split()[0] for method, argument in bench.runtime.calls if method == "stop_container"]
        assert stops == ["main", "side"]


async def test_environment_comes_from_services_and_objects(tmp_path: Path) -> None:
    async with running_workers(tmp_path) as bench:
        port = {"port": 80, "protocol": "TCP"}
        metadata = {"name": "db", "namespace": "default"}
        bench.services.append({"metadata": metadata, "spec": {"clusterIP": "10.96.0.7", "ports": [port]}})
        bench.objects.config_maps["default", "settings"] = {"data": {"MODE": "fast"}}
        variables = [
            {"name": "WHERE", "value": "http://$(DB_SERVICE_HOST):$(DB_SERVICE_PORT)"},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        ]
        web = pod(containers=[container(env=variables, envFrom=[{"configMapRef": {"name": "settings"}}])])
        bench.apply(web)
        await bench.until(lambda: bench.runtime.containers)
        (made,) = bench.runtime.containers.values()
        given = {entry.key: entry.value.decode() for entry in made.config.envs}
        assert given["WHERE"] == "http://10.96.0.7:80"
        assert given["MODE"] == "fast"
        assert given["IP"].startswith("10.244.")


async def test_a_missing_config_map_is_named(tmp_path: Path) -> None:
    async with running_workers(tmp_path) as bench:
        web = pod(containers=[container(envFrom=[{"configMapRef": {"name": "settings"}}])])
        bench.apply(web)
        await bench.until(lambda: bench.state(web).get("waiting", {}).get("reason") == "CreateContainerConfigError")
        assert bench.state(web)["waiting"]["message"] == 'configmap "settings" not found'


async def test_the_deadline_ends_a_pod(tmp_path: Path) -> None:
    async with running_workers(tmp_path) as bench:
        web = pod(activeDeadlineSeconds=60)
        bench.apply(web)
        await bench.until(lambda: bench.runtime.running())
        await bench.advance(61)
        await bench.until(lambda: bench.status(web).get("phase") == "Failed")
        assert bench.status(web)["reason"] == "DeadlineExceeded"
        await bench.until(lambda: not bench.runtime.running())


async def test_a_pod_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    async with running_workers(tmp_path) as bench:
        big = pod(containers=[container(resources={"requests": {"cpu": "9"}})])
        bench.apply(big)
        await bench.until(lambda: bench.status(big).get("phase") == "Failed")
        assert bench.status(big)["reason"] == "OutOfcpu"
        assert not bench.runtime.sandboxes


async def test_a_changed_image_restarts_the_container(tmp_path: Path) -> None:
    async with running_workers(tmp_path) as bench:
        bench.runtime.add_image("example.org/new:2")
        web = pod()
        bench.apply(web)
        await bench.until(lambda: bench.runtime.running())
        changed = pod(containers=[container(image="example.org/new:2")])
        bench.apply(changed)
        await bench.until(lambda: ("Killing", "Container main definition changed, will be restarted") in bench.events.seen)
        await bench.until(lambda: len(bench.runtime.containers) == 2 and bench.runtime.running())
        assert IMAGE != "example.org/new:2"


async def test_a_pod_removed_by_force_is_killed_quickly(tmp_path: Path) -> None:
    async with running_workers(tmp_path) as bench:
        bench.apply(pod())
        await bench.until(lambda: bench.runtime.running())
        bench.manager.remove("uid-web")
        await bench.until(lambda: ("stop_container", "main 1") in bench.runtime.calls)
        await bench.until(lambda: not bench.runtime.sandboxes)
        assert bench.api.deleted == []


async def test_starts_are_counted(tmp_path: Path) -> None:
    async with running_workers(tmp_path) as bench:
        bench.runtime.fail("create_container", errors.RuntimeServiceError("no"))
        bench.apply(pod())
        await bench.advance_until(lambda: bench.runtime.running(), 10)
        await bench.settle()
        text = bench.registry.expose().decode()
        assert "kubelet_started_pods_total 1.0" in text
        assert 'kubelet_started_containers_errors_total{code="CreateContainerError"} 1.0' in text
        assert "kubelet_pod_start_duration_seconds_count 1.0" in text


async def test_volumes_are_refreshed_while_the_pod_runs(tmp_path: Path) -> None:
    async with running_workers(tmp_path) as bench:
        web = pod()
        bench.apply(web)
        await bench.until(lambda: "running" in bench.state(web))
        for _ in range(3):
            await bench.advance(80)
        assert len(bench.volumes.refreshed) >= 2
        assert bench.volumes.mounted == ["web"]


async def test_a_pod_waits_for_its_runtime_class(tmp_path: Path) -> None:
    async with running_workers(tmp_path) as bench:
        web = pod(runtimeClassName="gvisor")
        bench.apply(web)
        await bench.until(lambda: "FailedCreatePodSandBox" in bench.events.reasons())
        assert 'runtimeclasses.node.k8s.io "gvisor" not found' in bench.events.seen[-1][1]
        bench.objects.handlers["gvisor"] = "runc"
        await bench.advance_until(lambda: "running" in bench.state(web))


async def test_an_evicted_pod_is_stopped_when_its_volumes_are_gone(tmp_path: Path) -> None:
    """A volume in memory outlives the containers; the next pod must not go for it."""
    async with running_workers(tmp_path) as bench:
        web = pod()
        bench.apply(web)
        await bench.until(lambda: bench.runtime.running())
        unmounting = asyncio.Event()

        async def slow(uid: str, pod_dir: Path) -> None:
            await unmounting.wait()

        bench.volumes.unmount = slow  # type: ignore[method-assign]
        uid = web["metadata"]["uid"]
        assert not bench.workers.terminated(uid)
        bench.workers.evict(uid, Failure("Evicted", "m"), 0)
        await bench.until(lambda: not bench.runtime.running())
        await bench.settle()
        assert not bench.workers.terminated(uid)
        unmounting.set()
        await bench.until(lambda: bench.workers.terminated(uid))
