"""What long lists cost an API server in memory and time: ``python -m bench.lists [OBJECTS]``.

It fills a database with pods, starts an API server on it, lets one and then four clients at once list them in every form, and
says by how much the server's memory rose meanwhile. ``tests/integration/storage/test_long_lists.py`` holds the figures down.
"""

import asyncio
import http.client
import json
import ssl
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from bench.storage import pod
from controlplane.apiserver.storage.backends.sqlite import SQLiteBackend
from controlplane.apiserver.storage.interface import Put
from tests.support.daemons import Bench, bench

PODS = "/api/v1/namespaces/default/pods"
PROTOBUF = "application/vnd.kubernetes.protobuf"
FORMS = {
    "JSON": "application/json",
    "protobuf": PROTOBUF,
    "Table": "application/json;as=Table;v=v1;g=meta.k8s.io",
    "metadata": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "metadata, protobuf": f"{PROTOBUF};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
}
_AT_ONCE = 500
_PIECE = 256 * 1024


async def fill(path: Path, count: int, make: Callable[[int], dict[str, Any]] = pod) -> None:
    """A database with so many pods, of 2.1 KB each unless ``make`` says otherwise."""
    backend = await SQLiteBackend.open(path)
    try:
        for start in range(0, count, _AT_ONCE):
            objects = map(make, range(start, min(start + _AT_ONCE, count)))
            puts = [Put(f"/registry/pods/default/{obj['metadata']['name']}", orjson.dumps(obj)) for obj in objects]
            await asyncio.gather(*(backend.commit((), (put,)) for put in puts))
    finally:
        await backend.close()


@contextmanager
def serving(folder: Path, count: int, make: Callable[[int], dict[str, Any]] = pod) -> Iterator[tuple[Bench, int]]:
    """A server that has them, and its pid."""
    with bench(folder / "cluster") as made:
        asyncio.run(fill(made.folder / "state.db", count, make))
        server = made.start_apiserver(seconds=120)
        yield made, server.process.pid


def read(made: Bench, path: str, accept: str, keep: bool = False) -> bytes:
    """A whole answer; without ``keep`` its beginning, the rest is only read."""
    context = ssl._create_unverified_context()
    connection = http.client.HTTPSConnection("127.0.0.1", made.port, context=context, timeout=120)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {made.token}", "Accept": accept})
        answer = connection.getresponse()
        kept = answer.read(_PIECE)
        assert answer.status == 200, kept[:300]
        while piece := answer.read(_PIECE):
            kept += piece if keep else b""
        return kept
    finally:
        connection.close()


def memory(pid: int, what: str = "VmRSS") -> int:
    """KB."""
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith(what)]
    return int(line.split()[1])


def rise(made: Bench, pid: int, path: str, accept: str, clients: int) -> tuple[float, float]:
    """By how many MB the server's memory rose above what it was, at most, and how many seconds it took."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak begins anew; needs root
    before, began = memory(pid), time.monotonic()
    with ThreadPoolExecutor(clients) as pool:
        for done in [pool.submit(read, made, path, accept) for _ in range(clients)]:
            done.result()
    return (memory(pid, "VmHWM") - before) / 1024, time.monotonic() - began


def overtake(made: Bench, name: str) -> str:
    """Remove one pod; the resourceVersion at which it was still there."""
    before = json.loads(read(made, f"{PODS}?limit=1", FORMS["JSON"], keep=True))["metadata"]["resourceVersion"]
    done = made.kubectl("delete", "pod", name, "--grace-period=0", "--force", "--wait=false")
    assert done.code == 0, done.err
    return str(before)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory(prefix="pyb-lists-") as folder, serving(Path(folder), count) as (made, pid):
        print(f"{count} pods, {memory(pid) / 1024:.0f} MB resident before the first list")
        for name, accept in FORMS.items():
            print_rise(made, pid, f"{name}, one client", PODS, accept, 1)
        for name in ("JSON", "Table"):
            print_rise(made, pid, f"{name}, 4 at once", PODS, FORMS[name], 4)
        print_rise(made, pid, "JSON, pages of 500", f"{PODS}?limit=500", FORMS["JSON"], 4)
        past = overtake(made, pod(count // 2)["metadata"]["name"])
        exact = f"{PODS}?resourceVersion={past}&resourceVersionMatch=Exact"
        for name in ("JSON", "Table"):
            print_rise(made, pid, f"{name}, a revision that is overtaken", exact, FORMS[name], 1)
        print_rise(made, pid, "JSON, first page of that revision", f"{exact}&limit=500", FORMS["JSON"], 1)
        print(f"{memory(pid) / 1024:.0f} MB resident at the end")


def print_rise(made: Bench, pid: int, name: str, path: str, accept: str, clients: int) -> None:
    more, seconds = rise(made, pid, path, accept, clients)
    print(f"  {name:<40} + {more:6.1f} MB  {seconds:6.2f} s", flush=True)


if __name__ == "__main__":
    main()
