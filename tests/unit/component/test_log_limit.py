"""A daemon whose parent rotates nothing keeps its log file within bounds itself."""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import os
from component import logs
logs.setup()
log = logs.get("test")
for number in range(400):
    log.info("A line", number=number, filler="x" * 100)
os.write(1, b"standard output goes on\\n")
"""


def run(file: Path, **environment: str) -> None:
    with file.open("ab") as log:
        here = str(Path(__file__).parents[3])
        env = {**os.environ, "PYTHONPATH": here, **environment}
        subprocess.run([sys.executable, "-c", PROGRAM], stdout=log, stderr=log, check=True, env=env, timeout=30)


def test_a_full_log_is_begun_anew_and_one_older_is_kept(tmp_path: Path) -> None:
    run(tmp_path / "node.log", PYBERNETES_LOG_LIMIT="20000")
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert set(sizes) == {"node.log", "node.log.1"}
    assert max(sizes.values()) < 80_000
    last = (tmp_path / "node.log").read_text().splitlines()
    assert last[-1] == "standard output goes on"
    assert "number=399" in last[-2]


def test_without_a_limit_a_log_is_left_alone(tmp_path: Path) -> None:
    run(tmp_path / "node.log")
    assert [path.name for path in tmp_path.iterdir()] == ["node.log"]
