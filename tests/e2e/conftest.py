"""One cluster serves all tests that do not restart its parts; each test works in a namespace of its own."""

import uuid
from collections.abc import Iterator

import pytest

from tests.support.cluster import Cluster, running_cluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with running_cluster() as running:
        running.pybernetes("demo")  # brings the image that the tests' pods use
        yield running


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    name = f"t-{uuid.uuid4().hex[:8]}"
    cluster.kubectl("create", "namespace", name)
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false", check=False)
