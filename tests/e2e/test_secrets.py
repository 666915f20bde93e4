"""A cluster by `pybernetes up` keeps Secrets encrypted without being asked to."""

import pytest

from tests.support.cluster import Cluster

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]


def test_no_secret_is_readable_in_the_database(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("create", "secret", "generic", "hidden", "-n", namespace, "--from-literal=k=nobody-may-read-this")
    assert cluster.get("secret", "hidden", "-n", namespace)["data"]["k"] == "bm9ib2R5LW1heS1yZWFkLXRoaXM="
    for path in cluster.data_dir.glob("state.db*"):
        data = path.read_bytes()
        assert b"bm9ib2R5LW1heS1yZWFkLXRoaXM" not in data, path
        assert b"nobody-may-read-this" not in data, path
    assert "secrets: 0 of " in cluster.pybernetes("secrets rewrite")
