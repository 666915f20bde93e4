from collections.abc import AsyncIterator

import pytest

from component.streams.channels import Options
from cri import streaming
from tests.support.streaming import running_streaming_server


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async with running_streaming_server() as base:
        yield base


async def test_run_feeds_input_and_collects_output(url: str) -> None:
    result = await streaming.run(f"{url}/exec/cat/error,stdin,stdout", Options(stdin=True, stdout=True), b"hi\n")
    assert (result.stdout, result.exit_code) == (b"hi\n", 0)


async def test_run_reports_exit_codes(url: str) -> None:
    result = await streaming.run(f"{url}/exec/fail/error,stdout,stderr", Options(stdout=True, stderr=True))
    assert (result.stderr, result.exit_code) == (b"oh no\n", 3)


async def test_big_input_comes_back_whole(url: str) -> None:
    data = bytes(range(256)) * 20_000
    result = await streaming.run(f"{url}/exec/cat/error,stdin,stdout", Options(stdin=True, stdout=True), data, 10_000_000)
    assert result.stdout == data


async def test_output_is_cut_at_the_limit(url: str) -> None:
    assert len((await streaming.run(f"{url}/exec/flood/error,stdout", Options(stdout=True), limit=1000)).stdout) == 1000


async def test_refusals_say_what_the_runtime_said(url: str) -> None:
    with pytest.raises(streaming.StreamingError, match=r"\(404\): container not found"):
        await streaming.run(f"{url}/refuse", Options(stdout=True))


@pytest.mark.parametrize("bad", ["unix:///run/x?token=1", "http://127.0.0.1:1/exec/x"])
async def test_unreachable_servers_are_errors(bad: str) -> None:
    with pytest.raises(streaming.StreamingError):
        await streaming.dial(bad)
