"""``apiserver --workers N`` over etcd, as processes: one port, any of them may die, none outlives its keeper."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemons import Bench, bench
from tests.support.etcd import running_etcd

COUNT = 2


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Bench]:
    (tmp_path / "etcd").mkdir()
    with running_etcd(tmp_path / "etcd") as etcd, bench(tmp_path / "cluster") as cluster:
        cluster.storage = etcd.flags()
        yield cluster


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def create(made: Bench, name: str) -> int:
    return made.kubectl("create", "configmap", name, "--from-literal=a=1").code


def test_workers_share_a_port_and_are_replaced(made: Bench) -> None:
    keeper = made.start_apiserver(f"--workers={COUNT}")
    workers = children(keeper.process.pid)
    assert len(workers) == COUNT
    assert create(made, "first") == 0
    for number in range(20):  # over connections of their own, so that both are asked
        assert made.get("/api/v1/namespaces/default/configmaps/first", token=made.token).status == 200, number
    os.kill(workers[0], signal.SIGKILL)
    deadline = time.monotonic() + 20
    while len(now := set(children(keeper.process.pid)) - {workers[0]}) < COUNT:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert workers[1] in now, f"the other one was touched:\n{keeper.log}"
    made.wait(keeper, lambda: all(made.get("/readyz").status == 200 for _ in range(10)))
    assert create(made, "second") == 0
    assert keeper.stop() == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in now)


def test_workers_do_not_outlive_a_killed_keeper(made: Bench) -> None:
    keeper = made.start_apiserver(f"--workers={COUNT}")
    workers = children(keeper.process.pid)
    keeper.process.kill()
    keeper.process.wait()
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    again = made.start_apiserver(f"--workers={COUNT}")  # the port is free
    assert again.stop() == 0
