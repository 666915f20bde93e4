"""The short form of ``run``: a few hundred requests, the same ones each time; and that the judge would notice."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz import run
from tests.fuzz.requests import Request
from tests.support.daemons import Bench, Daemon, bench

SEEDS = (1, 2)
GROWTH = 60  # megabytes: everything is met for the first time


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bench, Daemon]]:
    with bench(tmp_path_factory.mktemp("fuzz") / "c") as made:
        yield made, run.start(made)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_makes_the_server_fail(server: tuple[Bench, Daemon], seed: int) -> None:
    made, daemon = server
    early = run.resident(daemon)
    client = run.Client(made)
    try:
        run.one_round(client, seed, 100)
    finally:
        client.close()
    assert len(client.statuses) > 5, "answers of all sorts, or the requests are of one sort only"
    assert run.resident(daemon) - early < GROWTH
    assert "Traceback" not in daemon.log


def test_a_failure_would_be_noticed(server: tuple[Bench, Daemon], monkeypatch: pytest.MonkeyPatch) -> None:
    client = run.Client(server[0])
    monkeypatch.setattr(client, "_exchange", lambda request: (500, b"broken"))
    with pytest.raises(run.WrongAnswerError, match="500 broken"):
        client.send(Request("GET", "/"))


def test_schemathesis_is_pinned_where_make_looks_for_it() -> None:
    root = Path(__file__).parents[2]
    assert "schemathesis==" in (root / "requirements-fuzz.lock").read_text()
