"""One server for all manifests of a module, with every version and feature on.

Off are plug-ins that add to pods what is not in their manifests.
"""

from collections.abc import AsyncIterator

import pytest_asyncio

from component.features import from_flag
from controlplane.apiserver.config import Admission
from tests.support.apiserver import TestServer, running_apiserver


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def server() -> AsyncIterator[TestServer]:
    plugins = Admission(disabled=("DefaultTolerationSeconds", "Priority", "ServiceAccount"))
    features = from_flag({"AllAlpha": "true", "AllBeta": "true", "HPAScaleToZero": "false"})
    async with running_apiserver(runtime_config={"api/all": "true"}, features=features, admission=plugins) as running:
        yield running
