"""A trace reads the audit log and its rotated generations, oldest first."""

import json
from pathlib import Path

from cli.tracing.sources import read_audit


def entry(name: str, stage: str = "ResponseComplete") -> str:
    return json.dumps({"stage": stage, "objectRef": {"name": name}}, separators=(",", ":")) + "\n"


def test_generations_are_read_oldest_first_and_other_files_not(tmp_path: Path) -> None:
    for suffix in ("", ".1", ".2", ".10"):
        text = entry("web") + entry("other") + entry("web", "RequestReceived")
        (tmp_path / f"audit.log{suffix}").write_text(text.replace('"web"}', f'"web","generation":"{suffix}"}}'))
    (tmp_path / "audit.log.bak").write_text(entry("web"))

    found = read_audit(tmp_path / "audit.log", frozenset({"web"}), [])

    assert [item["objectRef"]["generation"] for item in found] == [".10", ".2", ".1", ""]


def test_a_missing_log_is_noted(tmp_path: Path) -> None:
    notes: list[str] = []

    assert read_audit(tmp_path / "audit.log", frozenset({"web"}), notes) == []
    assert "does not exist" in notes[0]
