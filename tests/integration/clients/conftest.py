"""The API server with a kubelet's server behind it, and what both Python clients are asked to create from YAML."""

import asyncio
import gc
from asyncio import selector_events
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.streams.conftest import Cluster, running

MANIFESTS = """\
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {colour: red}}
- {apiVersion: v1, kind: Secret, metadata: {name: hidden}, stringData: {word: sesame}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: x}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
"""


@pytest.fixture
def manifests(tmp_path: Path) -> str:
    path = tmp_path / "manifests.yaml"
    path.write_text(MANIFESTS)
    return str(path)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with running(tmp_path) as started:
        yield started
    await abort_connections()


async def abort_connections() -> None:
    """These clients hang up without TLS's goodbye, for which asyncio waits longer than the test's loop lives."""
    for transport in gc.get_objects():
        if isinstance(transport, selector_events._SelectorTransport) and transport._sock is not None:  # type: ignore[attr-defined]
            transport.abort()
    await asyncio.sleep(0)
