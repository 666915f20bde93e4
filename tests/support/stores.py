"""Backends and stores for tests: the object that tests keep, the traits it has, and a running cache around a backend."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from controlplane.apiserver.storage.cacher.cacher import Cacher
from controlplane.apiserver.storage.cacher.feed import Feed
from controlplane.apiserver.storage.interface import Backend, Collection, Matches, Traits

PREFIX = "/registry/pods/"


def extract(obj: dict[str, Any]) -> Traits:
    metadata, spec = obj["metadata"], obj.get("spec", {})
    fields = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata.get("namespace", ""),
        "spec.nodeName": spec.get("nodeName", ""),
    }
    return Traits(metadata.get("labels", {}), fields)


PODS = Collection(PREFIX, "v1", "Pod", extract, indexes=("spec.nodeName",))


def key(name: str, namespace: str = "default") -> str:
    return f"{PREFIX}{namespace}/{name}"


def pod(name: str, namespace: str = "default", *, node: str = "", labels: dict[str, str] | None = None) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": namespace}
    if labels:
        metadata["labels"] = labels
    return {"kind": "Pod", "apiVersion": "v1", "spec": {"nodeName": node}, "metadata": metadata}


def labelled(**labels: str) -> Matches:
    return lambda traits: all(traits.labels.get(name) == value for name, value in labels.items())


def on_node(node: str) -> Matches:
    return lambda traits: traits.fields["spec.nodeName"] == node


@asynccontextmanager
async def running_feed(backend: Backend) -> AsyncIterator[Feed]:
    feed = Feed(backend)
    running = asyncio.ensure_future(feed.run())
    try:
        yield feed
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


@asynccontextmanager
async def cached(backend: Backend, collection: Collection = PODS) -> AsyncIterator[Cacher]:
    async with running_feed(backend) as feed:
        cacher = Cacher(feed, collection)
        await cacher.start()
        yield cacher
