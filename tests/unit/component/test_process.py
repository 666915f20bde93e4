import asyncio
from pathlib import Path

import pytest
import uvloop

from component.process import Completed, FakeRunner, ProcessError, RealRunner


async def test_output_and_input_pass_through():
    done = await RealRunner().run(["cat"], stdin=b"hello")
    assert (done.returncode, done.stdout, done.truncated) == (0, b"hello", False)


async def test_failure_says_what_the_program_said():
    with pytest.raises(ProcessError, match=r"exit status 2: .*No such file"):
        await RealRunner().run(["ls", "/nonexistent-path"], env={"LC_ALL": "C"})


async def test_unchecked_failure_is_a_value():
    assert (await RealRunner().run(["false"], check=False)).returncode == 1


async def test_a_missing_program_is_named():
    with pytest.raises(ProcessError, match="cannot start /no/such/program: No such file"):
        await RealRunner().run(["/no/such/program"])


async def test_output_is_bounded_and_the_writer_not_blocked():
    done = await RealRunner().run(["head", "-c", "3000000", "/dev/zero"], max_output=1000)
    assert len(done.stdout) == 1000
    assert done.truncated


async def test_a_program_that_takes_too_long_is_killed_with_its_children(tmp_path):
    mark = tmp_path / "pid"
    with pytest.raises(ProcessError, match=r"did not end within 0\.3 s"):
        await RealRunner().run(["sh", "-c", f"sleep 60 & echo $! > {mark}; wait"], timeout=0.3)
    child = int(mark.read_text())
    for _ in range(100):
        if gone(child):
            break
        await asyncio.sleep(0.01)
    else:
        pytest.fail("the child outlived its parent's time")


def gone(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or " Z " in stat.read_text()


async def test_the_fake_records_and_answers():
    runner = FakeRunner(lambda argv, stdin: Completed(tuple(argv), 3, b"", b"no") if "bad" in argv else b"fine")
    assert (await runner.run(["tool", "good"])).stdout == b"fine"
    with pytest.raises(ProcessError, match="tool bad: exit status 3: no"):
        await runner.run(["tool", "bad"], stdin=b"x")
    assert runner.calls == [(("tool", "good"), b""), (("tool", "bad"), b"x")]


def test_a_child_may_leave_before_it_has_read_its_input() -> None:
    async def main() -> list[int]:
        done = [await RealRunner().run(["/bin/sh", "-c", "exit 3"], stdin=b"x" * 200_000, check=False) for _ in range(20)]
        return [completed.returncode for completed in done]

    for run in (asyncio.run, uvloop.run):
        assert run(main()) == [3] * 20
