"""docs/security.md is true: every row has a proof, every proof is there, and no row of the mutants is missing from it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.security.test_mutants import MUTANTS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/security.md").read_text()
_PROOF = re.compile(r"`((?:tests/|test_)\S+?)(?: -k (?:\"([^\"]+)\"|(\S+?)))?`")


_HEADS = ("| Class", "| Check", "|--")
_NAMES = re.compile(r"def (test_\w+)|id=\"([^\"]+)\"|^    \"([^\"]+)\":", re.MULTILINE)


def rows() -> Iterator[str]:
    yield from (line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith(_HEADS))


def proofs() -> list[tuple[str, str]]:
    return [(match[1], match[2] or match[3] or "") for row in rows() for match in _PROOF.finditer(row)]


def names_below(path: Path) -> str:
    files = path.rglob("test_*.py") if path.is_dir() else [path]
    return "\n".join("".join(found) for file in files for found in _NAMES.findall(file.read_text()))


def test_every_row_names_a_proof() -> None:
    assert [row for row in rows() if not _PROOF.search(row) and "as above" not in row] == []


@pytest.mark.parametrize(("path", "words"), sorted(set(proofs())))
def test_every_proof_is_there(path: str, words: str) -> None:
    file = ROOT / (path if path.startswith("tests/") else f"tests/security/{path}")
    assert file.exists()
    names = names_below(file)
    for word in re.split(r" or ", words) if words else []:
        assert word in names, f"-k {word} selects nothing in {path}"


def test_every_mutant_belongs_to_a_row() -> None:
    """A row may name several of one year: ``CVE-2020-8551, -8552``."""
    names = {mutant.row: mutant.row.rpartition("-")[2] if mutant.row.startswith("CVE-") else mutant.row for mutant in MUTANTS}
    assert [row for row, name in names.items() if name not in PAGE] == []
