"""Audit events that are too large, bodies in protobuf, and files that grow old."""

import json
import os
from pathlib import Path
from typing import Any

from apimachinery.codecs import protobuf
from controlplane.apiserver.audit.policy import Level, Verdict
from controlplane.apiserver.audit.record import Record
from controlplane.apiserver.audit.sinks import FileSink
from controlplane.apiserver.audit.truncate import TRUNCATED, Bounds, batches, fitted

MAP = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "a", "managedFields": [{"manager": "m"}]},
    "data": {"k": "v"},
}


def event(**more: Any) -> dict[str, Any]:
    return {"kind": "Event", "auditID": "x", "annotations": {"a": "b"}, **more}


def test_an_event_that_is_too_large_loses_its_bodies_and_says_so() -> None:
    large = event(requestObject={"a": "x" * 500}, responseObject={"b": "y" * 500})
    whole, short = fitted(large, 5000), fitted(large, 300)
    assert whole is not None
    assert short is not None
    assert json.loads(whole) == large
    assert json.loads(short) == event(annotations={"a": "b", TRUNCATED: "true"})
    assert fitted(large, 20) is None


def test_batches_keep_the_order_and_their_size() -> None:
    events = [b"x" * size for size in (5, 5, 5, 11, 1, 1)]
    assert [list(map(len, batch)) for batch in batches(events, 10)] == [[5, 5], [5], [11], [1, 1]]
    assert list(batches([], 10)) == []


def test_protobuf_bodies_are_kept_as_objects() -> None:
    sent = protobuf.encode(MAP)
    assert sent is not None
    record = Record(Verdict(Level.REQUEST_RESPONSE, managed_fields=False), sent, "application/vnd.kubernetes.protobuf")
    record.response, record.response_type = b"k8s\x00nonsense", "application/vnd.kubernetes.protobuf"
    kept = record.bodies()
    assert kept["requestObject"]["data"] == {"k": "v"}
    assert "managedFields" not in kept["requestObject"]["metadata"]
    assert "responseObject" not in kept


async def test_rotated_files_are_kept_for_so_many_and_so_long(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    for _ in range(5):
        async with FileSink(path, 50, 3, days=2, bounds=Bounds(event=400)).running() as sink:
            sink.record(event(requestObject={"a": "x" * 1000}))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["audit.log", "audit.log.1", "audit.log.2", "audit.log.3"]
    assert json.loads(path.read_text())["annotations"][TRUNCATED] == "true"
    old = (tmp_path / "audit.log.3").stat().st_mtime - 3 * 86_400
    os.utime(tmp_path / "audit.log.3", (old, old))
    os.utime(tmp_path / "audit.log.2", (old, old))
    async with FileSink(path, 10_000, 3, days=2).running() as sink:
        sink.record(event())
    assert sorted(each.name for each in tmp_path.iterdir()) == ["audit.log", "audit.log.1"]
