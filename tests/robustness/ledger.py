"""The ledger of robustness runs at the end of ``docs/reliability.md``: one row a run, never rewritten. Called by ``run``."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

LEDGER = Path(__file__).parents[2] / "docs" / "reliability.md"
HEADING = "## Ledger"
_HEAD = "| world | seed | seconds | faults | operations | verdict |\n|---|---|---|---|---|---|\n"
_ROW = re.compile(r"^\| (?P<world>\w+) \| (?P<seed>\d+) \| (?P<rest>.*) \| (?P<verdict>[^|]+) \|$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Row:
    """``python -m tests.robustness.run --world WORLD --seeds SEED --seconds SECONDS`` repeats it."""

    world: str
    seed: int
    seconds: float
    faults: str
    operations: str
    verdict: str

    def __str__(self) -> str:
        return f"| {self.world} | {self.seed} | {self.seconds:g} | {self.faults} | {self.operations} | {self.verdict} |\n"


def plan(runs: int, worlds: Sequence[str], path: Path = LEDGER) -> Iterator[tuple[str, int]]:
    """(world, seed) of runs that are not in the ledger yet, the worlds in turn."""
    last = dict.fromkeys(worlds, 0)
    for found in _ROW.finditer(_ledger(path)):
        world, seed = found["world"], int(found["seed"])
        last[world] = max(last.get(world, 0), seed)
    for number in range(runs):
        world = worlds[number % len(worlds)]
        last[world] += 1
        yield world, last[world]


def note(row: Row, path: Path = LEDGER) -> None:
    """Add a row; the heading too, when this is the first."""
    text = path.read_text() if path.exists() else ""
    if HEADING not in text:
        text = f"{text.rstrip()}\n\n{HEADING}\n\n{_HEAD}".lstrip()
    path.write_text(text.rstrip("\n") + "\n" + str(row))


def clean_in_a_row(path: Path = LEDGER) -> int:
    """How many of the last runs were good, one after another."""
    verdicts = [found["verdict"].strip() for found in _ROW.finditer(_ledger(path))]
    count = 0
    for verdict in reversed(verdicts):
        if verdict != "good":
            break
        count += 1
    return count


def _ledger(path: Path) -> str:
    text = path.read_text() if path.exists() else ""
    return text.partition(HEADING)[2]
