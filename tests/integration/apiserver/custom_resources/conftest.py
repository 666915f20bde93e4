"""One real API server per test, over memory."""

from collections.abc import AsyncIterator

import pytest

from tests.support.apiserver import TestServer, running_apiserver


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    async with running_apiserver() as started:
        yield started
