"""Jobs run to completion, fail when they must, and count every pod once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.meta import Object, clone, condition_status, get_condition, name_of, namespace_of
from apimachinery.resources import CRON_JOBS, JOBS, PODS
from client.rest import Client
from tests.support.apiserver import running_apiserver
from tests.support.control_plane import add_node, control_plane, eventually


def job(**spec: Any) -> Object:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "work:1"}]}}
    metadata = {"name": "work", "namespace": "default"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template, **spec}}


async def finish(client: Client, phase: str) -> None:
    """Every bound pod that has not ended ends that way."""
    for pod in (await client.list(PODS, "default"))["items"]:
        try:
            if pod["metadata"].get("deletionTimestamp"):
                await client.delete(PODS, name_of(pod), namespace_of(pod), grace=0)
            elif pod["spec"].get("nodeName") and pod["status"]["phase"] in {"Pending", "Running"} - {phase}:
                changed = clone(pod)
                changed["status"]["phase"] = phase
                await client.update_status(PODS, changed)
        except StatusError as error:
            if error.code not in (404, 409):
                raise


@asynccontextmanager
async def cluster(phase: str = "Succeeded") -> AsyncIterator[Client]:
    async def play(client: Client) -> None:
        while True:
            await finish(client, phase)
            await asyncio.sleep(0.03)

    async with running_apiserver() as server, control_plane(server) as client:
        await add_node(client)
        running = asyncio.ensure_future(play(client))
        try:
            yield client
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def ended(client: Client, kind: str) -> Object | None:
    held = await client.get(JOBS, "work", "default")
    return held if condition_status(held, kind) == "True" else None


async def test_completions() -> None:
    async with cluster() as client:
        await client.create(JOBS, job(completions=5, parallelism=2))
        held = await eventually(lambda: ended(client, "Complete"))
        status = held["status"]
        assert status["succeeded"] == 5
        assert status["completionTime"]
        assert status["uncountedTerminatedPods"] == {}
        pods = (await client.list(PODS, "default"))["items"]
        assert len(pods) == 5
        assert all("finalizers" not in pod["metadata"] for pod in pods)
        await client.delete(JOBS, "work", "default", propagation="Background")

        async def gone() -> bool:
            return not (await client.list(PODS, "default"))["items"]

        await eventually(gone)


async def test_indexes() -> None:
    async with cluster() as client:
        await client.create(JOBS, job(completions=4, parallelism=4, completionMode="Indexed"))
        held = await eventually(lambda: ended(client, "Complete"))
        assert held["status"]["completedIndexes"] == "0-3"
        hosts = sorted(pod["spec"]["hostname"] for pod in (await client.list(PODS, "default"))["items"])
        assert hosts == [f"work-{number}" for number in range(4)]


async def test_too_many_failures() -> None:
    async with cluster("Failed") as client:
        await client.create(JOBS, job(backoffLimit=0, parallelism=2, completions=2))
        held = await eventually(lambda: ended(client, "Failed"))
        condition = get_condition(held, "Failed")
        assert condition is not None
        assert (condition["reason"], condition["message"]) == (
            "BackoffLimitExceeded",
            "Job has reached the specified backoff limit",
        )
        assert held["status"]["failed"] >= 1


async def test_deadline_suspension_and_time_to_live() -> None:
    async with cluster("Running") as client:
        await client.create(JOBS, job(suspend=True, activeDeadlineSeconds=1, ttlSecondsAfterFinished=0))

        async def suspended() -> bool:
            return condition_status(await client.get(JOBS, "work", "default"), "Suspended") == "True"

        await eventually(suspended)
        assert not (await client.list(PODS, "default"))["items"]
        await client.patch(JOBS, "work", {"spec": {"suspend": False}}, namespace="default")

        async def gone() -> bool:
            return not (await client.list(JOBS, "default"))["items"] and not (await client.list(PODS, "default"))["items"]

        await eventually(gone)


async def test_cron_makes_jobs() -> None:
    async with cluster() as client:
        template = {"spec": {"template": job()["spec"]["template"]}}
        spec = {"schedule": "@every 1s", "jobTemplate": template, "successfulJobsHistoryLimit": 1}
        metadata = {"name": "tick", "namespace": "default"}
        await client.create(CRON_JOBS, {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": spec})

        async def ran() -> bool:
            status = (await client.get(CRON_JOBS, "tick", "default")).get("status") or {}
            return bool(status.get("lastScheduleTime") and status.get("lastSuccessfulTime"))

        await eventually(ran)
        await client.delete(CRON_JOBS, "tick", "default", propagation="Background")

        async def gone() -> bool:
            return not (await client.list(JOBS, "default"))["items"]

        await eventually(gone)


async def test_a_pod_that_no_job_counts_may_go() -> None:
    """Released by its labels, stripped of its owner by hand, or left by a Job that was deleted without it."""
    async with cluster("Running") as client:
        await client.create(JOBS, job(parallelism=3, completions=3))

        async def running() -> list[Object]:
            pods = (await client.list(PODS, "default"))["items"]
            return pods if len(pods) == 3 and all(pod["metadata"].get("finalizers") for pod in pods) else []

        released, stripped, orphaned = [name_of(pod) for pod in await eventually(running)]
        labels = {"batch.kubernetes.io/controller-uid": "other", "controller-uid": "other"}
        await client.patch(PODS, released, {"metadata": {"labels": labels}}, namespace="default")
        metadata = {"ownerReferences": None, "labels": labels}
        await client.patch(PODS, stripped, {"metadata": metadata}, namespace="default")

        async def free(name: str) -> bool:
            metadata = (await client.get(PODS, name, "default"))["metadata"]
            return "finalizers" not in metadata and "ownerReferences" not in metadata

        await eventually(lambda: free(released))
        await eventually(lambda: free(stripped))
        await client.delete(JOBS, "work", "default", propagation="Orphan")
        await eventually(lambda: free(orphaned))


async def test_an_adopted_pod_is_counted() -> None:
    async with cluster() as client:
        await client.create(
            JOBS,
            job(
                parallelism=1,
                completions=1,
                suspend=True,
                manualSelector=True,
                selector={"matchLabels": {"a": "b"}},
                template={**job()["spec"]["template"], "metadata": {"labels": {"a": "b"}}},
            ),
        )
        spec = job()["spec"]["template"]["spec"]
        metadata = {"name": "stray", "namespace": "default", "labels": {"a": "b"}}
        await client.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

        async def adopted() -> bool:
            owners = (await client.get(PODS, "stray", "default"))["metadata"].get("ownerReferences", [])
            return [each["kind"] for each in owners] == ["Job"]

        await eventually(adopted)
