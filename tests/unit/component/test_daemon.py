import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = """
import asyncio, sys
from component import daemon, flags
async def main(options):
    if options["fail"] == "file":
        raise FileNotFoundError(2, "no such thing", "/x/y")
    if options["fail"] == "bug":
        raise KeyError("oops")
    print("ready", flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        if options["linger"]:
            await asyncio.sleep(30)
        print("clean", options["name"], flush=True)
P = [flags.option("--fail", default=""), flags.option("--name", default="a"), flags.switch("--linger", False, "x")]
D = daemon.Daemon("demo", "A demo.", P, main)
if "ALL" in sys.argv:
    sys.exit(daemon.run_all([(D, ["--name=one"]), (D, ["--name=two", *sys.argv[2:]])]))
daemon.run(D)
"""


@pytest.fixture
def start(tmp_path):
    script = tmp_path / "demo.py"
    script.write_text(textwrap.dedent(PROGRAM))
    started = []

    def run(*argv: str) -> subprocess.Popen:
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            [sys.executable, script, *argv], stdout=pipe, stderr=pipe, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_signal_ends_it_cleanly(start, number):
    process = start()
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    out, _ = process.communicate(timeout=20)
    assert out == "clean a\n"
    assert process.returncode == 0


def test_a_second_signal_ends_it_at_once(start):
    process = start("--linger")
    process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    assert "Received signal" in process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 1
    assert out == ""


def test_what_an_operator_can_mend_is_one_sentence(start):
    _, err = (process := start("--fail=file")).communicate(timeout=20)
    assert process.returncode == 1
    assert err.startswith("Error: demo: /x/y: no such thing")
    assert "Traceback" not in err


def test_a_bug_shows_its_traceback(start):
    _, err = (process := start("--fail=bug")).communicate(timeout=20)
    assert process.returncode == 1
    assert "Traceback" in err
    assert "KeyError: 'oops'" in err


def test_bad_flags_exit_with_2(start):
    _, err = (process := start("--nope")).communicate(timeout=20)
    assert process.returncode == 2
    assert "No such option" in err


def test_one_failing_daemon_brings_all_down(start):
    out, err = (process := start("ALL", "--fail=file")).communicate(timeout=20)
    assert process.returncode == 1
    assert "no such thing" in err
    assert "clean two" not in out


def test_all_stop_together(start):
    process = start("ALL")
    assert [process.stdout.readline() for _ in range(2)] == ["ready\n", "ready\n"]
    process.terminate()
    out, _ = process.communicate(timeout=20)
    assert sorted(out.splitlines()) == ["clean one", "clean two"]
    assert process.returncode == 0
