"""The ledger only grows, and new runs have new seeds."""

from pathlib import Path

from tests.robustness import ledger
from tests.robustness.ledger import LEDGER, Row


def row(world: str, seed: int, verdict: str = "good") -> Row:
    return Row(world, seed, 20, "1 kill", "10 writes (5 acknowledged, 1 without an answer)", verdict)


def test_rows_are_added_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("# Page\n\ntext\n")
    for one in (row("etcd", 1), row("sqlite", 7, "2 BROKEN PROMISES"), row("etcd", 2), row("sqlite", 8)):
        ledger.note(one, path)

    assert path.read_text().startswith("# Page\n\ntext\n\n## Ledger\n")
    assert path.read_text().count("\n| ") == 5
    assert ledger.clean_in_a_row(path) == 2
    assert list(ledger.plan(4, ["etcd", "sqlite"], path)) == [("etcd", 3), ("sqlite", 9), ("etcd", 4), ("sqlite", 10)]


def test_the_projects_own_ledger_can_be_read() -> None:
    assert ledger.clean_in_a_row() > 0, "the last run in docs/reliability.md broke a promise"
    assert list(ledger.plan(1, ["etcd"])) > [("etcd", 1)]
    assert LEDGER.exists()
