"""`pybernetes trace` tells the journey of a Deployment, hop by hop, in order."""

import pytest

from tests.support.cluster import Cluster, eventually
from tests.support.manifests import web

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

JOURNEY = [
    ("deployment/web", "created"),
    ("replicaset/web-", "created"),
    ("pod/web-", "created"),
    ("pod/web-", "bound"),
    ("pod/web-", "Scheduled: Successfully assigned"),
    ("pod/web-", "Created"),
    ("pod/web-", "Started"),
    ("service/web", "rules programmed (1 endpoints"),
]


def test_the_journey_of_a_deployment(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=web(replicas=1))
    cluster.kubectl("rollout", "status", "deployment/web", "-n", namespace, "--timeout=60s")

    def whole() -> str:
        text = cluster.pybernetes("trace", "deployment/web", "-n", namespace)
        assert "rules programmed (1 endpoints" in text
        return text

    lines = eventually(whole, 20).splitlines()
    positions = [
        next((number for number, line in enumerate(lines) if subject in line and what in line), None) for subject, what in JOURNEY
    ]

    assert None not in positions, "\n".join(lines)
    assert positions == sorted(positions), "\n".join(lines)
    assert any("kubernetes-admin" in line and "stored at revision" in line for line in lines)
    assert any("nodes fit" in line for line in lines), "the scheduler says why"


def test_an_object_that_does_not_exist_is_named(cluster: Cluster, namespace: str) -> None:
    text = cluster.pybernetes("trace", "deployment/nothing", "-n", namespace, check=False)

    assert 'deployments.apps "nothing" not found' in text
