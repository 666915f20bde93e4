"""What storage costs, without a server around it: commits, reads, lists, fan-out, memory.

Run: ``python -m bench.storage [write|read|fanout|memory ...]``. CPU is of the whole process; nothing else should run.
"""

import asyncio
import gc
import resource
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from controlplane.apiserver.storage.backends.memory import MemoryBackend
from controlplane.apiserver.storage.backends.sqlite import SQLiteBackend
from controlplane.apiserver.storage.cacher.cacher import Cacher
from controlplane.apiserver.storage.cacher.feed import Feed
from controlplane.apiserver.storage.interface import Backend, Collection, ListOptions, Traits, WatchOptions

PREFIX = "/registry/pods/"


def pod(number: int, node: str = "") -> dict[str, Any]:
    """A pod of about 2.1 KB."""
    name = f"web-7c5ddbdf54-{number:06}"
    container = {
        "name": "web",
        "image": "registry.example/library/web:1.27.3",
        "ports": [{"containerPort": 80, "protocol": "TCP"}],
        "env": [{"name": f"SETTING_{index}", "value": f"value-{index}"} for index in range(6)],
        "resources": {"limits": {"cpu": "500m", "memory": "128Mi"}, "requests": {"cpu": "100m", "memory": "64Mi"}},
        "volumeMounts": [
            {"name": "kube-api-access", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True}
        ],
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }
    conditions = [
        {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": "2026-11-30T11:16:38Z"}
        for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "generateName": "web-7c5ddbdf54-",
            "namespace": "default",
            "uid": f"6d8f{number:08}-aaaa-bbbb-cccc-000000000000",
            "creationTimestamp": "2026-11-30T11:16:38Z",
            "labels": {"app": "web", "pod-template-hash": "7c5ddbdf54"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7c5ddbdf54", "controller": True}],
        },
        "spec": {
            "containers": [container],
            "nodeName": node,
            "restartPolicy": "Always",
            "serviceAccountName": "default",
            "schedulerName": "default-scheduler",
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
        },
        "status": {"phase": "Running", "conditions": conditions, "podIP": f"10.244.{number // 250 % 250}.{number % 250}"},
    }


def extract(obj: dict[str, Any]) -> Traits:
    metadata, spec, status = obj["metadata"], obj["spec"], obj["status"]
    fields = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.restartPolicy": spec.get("restartPolicy", ""),
        "spec.schedulerName": spec.get("schedulerName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", ""),
        "status.phase": status.get("phase", ""),
        "status.podIP": status.get("podIP", ""),
    }
    return Traits(metadata.get("labels", {}), fields)


PODS = Collection(PREFIX, "v1", "Pod", extract, indexes=("spec.nodeName",))


def key(number: int) -> str:
    return f"{PREFIX}default/web-7c5ddbdf54-{number:06}"


async def measure(label: str, count: int, run: Callable[[], Awaitable[Any]]) -> None:
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    await run()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(f"{label:58} {cpu / count * 1e6:9.1f} us CPU {wall / count * 1e6:9.1f} us each {count / wall:9.0f}/s")


async def open_cacher(stack: AsyncExitStack, backend: Backend) -> Cacher:
    feed = Feed(backend)
    running = asyncio.ensure_future(feed.run())

    async def stop() -> None:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    stack.push_async_callback(backend.close)
    stack.push_async_callback(stop)
    cacher = Cacher(feed, PODS)
    await cacher.start()
    return cacher


async def write(stack: AsyncExitStack) -> None:
    directory = stack.enter_context(tempfile.TemporaryDirectory())
    for name in ("memory", "sqlite"):
        backend: Backend = MemoryBackend() if name == "memory" else await SQLiteBackend.open(Path(directory) / "bench.db")
        cacher = await open_cacher(stack, backend)
        objects = [pod(number) for number in range(5000)]

        async def create(numbers: range, cacher: Cacher = cacher, objects: list[dict[str, Any]] = objects) -> None:
            for number in numbers:
                await cacher.create(key(number), objects[number])

        async def many(writers: int, first: int, count: int, create: Any = create) -> None:
            each = count // writers
            await asyncio.gather(*(create(range(first + w * each, first + (w + 1) * each)) for w in range(writers)))

        await measure(f"{name}: create, one writer", 500, partial(many, 1, 0, 500))
        await measure(f"{name}: create, 64 writers", 3200, partial(many, 64, 500, 3200))

        async def update(cacher: Cacher, start: int) -> None:
            for number in range(start, start + 50):
                await cacher.update(key(number), lambda obj: {**obj, "status": {**obj["status"], "phase": "Failed"}})

        async def updates(cacher: Cacher = cacher) -> None:
            await asyncio.gather(*(update(cacher, start * 50) for start in range(64)))

        await measure(f"{name}: update, 64 writers", 3200, updates)


async def read(stack: AsyncExitStack) -> None:
    cacher = await open_cacher(stack, MemoryBackend())
    for number in range(20_000):
        await cacher.create(key(number), pod(number, f"node-{number % 100}"))

    async def gets() -> None:
        for number in range(20_000):
            (await cacher.get(key(number))).body  # noqa: B018

    async def lists(options: ListOptions, times: int) -> None:
        for _ in range(times):
            result = await cacher.list(PREFIX, options)
            b",".join([entry.item for entry in result.entries])

    by_node = ListOptions(field_equals=(("spec.nodeName", "node-7"),), matches=lambda t: t.fields["spec.nodeName"] == "node-7")
    by_label = ListOptions(matches=lambda t: t.labels.get("app") == "none")
    await measure("get", 20_000, gets)
    await measure("list 1000 of 20000, joined, per list", 50, lambda: lists(ListOptions(limit=1000), 50))
    await measure("list 20000, joined, per list", 5, lambda: lists(ListOptions(), 5))
    await measure("list of one node (200 of 20000), per list", 50, lambda: lists(by_node, 50))
    await measure("list by a label that none of 20000 has, per list", 10, lambda: lists(by_label, 10))


async def fanout(stack: AsyncExitStack) -> None:
    cacher = await open_cacher(stack, MemoryBackend())
    for number in range(1000):
        await cacher.create(key(number), pod(number, f"node-{number % 500}"))
    events, seen = 200, [0]

    async def read_all(watch: Any) -> None:
        while batch := await watch.batch():
            for frame in batch:
                seen[0] += len(frame.line) and 1

    async def watched(count: int, options: Callable[[str, int], WatchOptions]) -> list[Any]:
        version = str(cacher.revision)
        watches = [await cacher.watch(PREFIX, options(version, number)) for number in range(count)]
        readers.extend(asyncio.ensure_future(read_all(watch)) for watch in watches)
        await asyncio.sleep(0.05)
        return watches

    async def update() -> None:
        for step in range(events):
            phase = {"phase": str(step)}
            await cacher.update(key(1), lambda obj, phase=phase: {**obj, "status": obj["status"] | phase})  # type: ignore[misc]
        await asyncio.sleep(0)

    readers: list[asyncio.Future[None]] = []
    await measure("an update nobody watches", events, update)
    for count, label, options in (
        (300, "everything", _everything),
        (300, "a label selector", _labelled),
        (500, "another node each (1 of 500 is told)", _on_node),
        (300, "that one object", _named),
    ):
        watches = await watched(count, options)
        seen[0] = 0
        await measure(f"an update, {count} watchers of {label}", events, update)
        print(f"{'':10} told {seen[0]} watcher-events")
        for watch in watches:
            watch.close()
        await asyncio.gather(*readers)
        readers.clear()


def _everything(version: str, _number: int) -> WatchOptions:
    return WatchOptions(version)


def _labelled(version: str, _number: int) -> WatchOptions:
    return WatchOptions(version, matches=lambda traits: traits.labels.get("app") == "web")


def _named(version: str, _number: int) -> WatchOptions:
    return WatchOptions(version, field_equals=(("metadata.name", "web-7c5ddbdf54-000001"),))


def _on_node(version: str, number: int) -> WatchOptions:
    node = f"node-{number}"
    return WatchOptions(version, matches=lambda t: t.fields["spec.nodeName"] == node, field_equals=(("spec.nodeName", node),))


async def memory(stack: AsyncExitStack) -> None:
    directory = stack.enter_context(tempfile.TemporaryDirectory())
    path = Path(directory) / "bench.db"
    child = await asyncio.create_subprocess_exec(sys.executable, "-m", "bench.storage", "fill", str(path))
    await child.wait()
    gc.collect()
    before, start = _resident(), time.perf_counter()
    backend = await SQLiteBackend.open(path)
    opened, at = _resident(), time.perf_counter()
    cacher = await open_cacher(stack, backend)
    gc.collect()
    size = sum(len(entry.body) for entry in (await cacher.list(PREFIX, ListOptions())).entries)
    print(f"{len(cacher)} pods of {size / len(cacher):.0f} bytes: {size / 1e6:.1f} MB of JSON")
    print(
        f"open {at - start:.2f} s, {opened - before:.1f} MB; load {time.perf_counter() - at:.2f} s, {_resident() - opened:.1f} MB"
    )
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


async def fill(path: str) -> None:
    backend = await SQLiteBackend.open(path, synchronous="NORMAL")
    from controlplane.apiserver.storage.encoding import encode
    from controlplane.apiserver.storage.interface import Put

    for start in range(0, 20_000, 500):
        numbers = range(start, start + 500)
        await asyncio.gather(*(backend.commit((), (Put(key(n), encode(pod(n, f"node-{n % 100}"))),)) for n in numbers))
    await backend.close()


def _resident() -> float:
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * resource.getpagesize() / 1e6


async def main(names: list[str]) -> None:
    if names[:1] == ["fill"]:
        await fill(names[1])
        return
    print(f"a pod is {len(orjson.dumps(pod(1)))} bytes")
    for name in names or ["write", "read", "fanout", "memory"]:
        async with AsyncExitStack() as stack:
            await {"write": write, "read": read, "fanout": fanout, "memory": memory}[name](stack)


if __name__ == "__main__":
    import uvloop

    uvloop.run(main(sys.argv[1:]))
