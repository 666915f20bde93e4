"""`pybernetes why` on real containers: the last words of a crash, the registry's answer, a probe's output."""

import json
from typing import Any

import pytest

from bootstrap.demo import REFERENCE
from tests.support.cluster import Cluster, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

CRASHES = {"image": REFERENCE, "command": ["sh", "-c", "echo cannot reach db:5432; exit 3"]}
PULLS = {"image": "127.0.0.1:1/nothing/here:1"}
NOT_READY = {
    "image": REFERENCE,
    "readinessProbe": {"exec": {"command": ["sh", "-c", "echo cache is cold; exit 1"]}, "periodSeconds": 1},
}


def deployment(name: str, container: dict[str, Any]) -> dict[str, Any]:
    labels = {"app": name}
    spec = {"terminationGracePeriodSeconds": 1, "containers": [{"name": "c", **container}]}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def test_three_broken_workloads(cluster: Cluster, namespace: str) -> None:
    broken = {"crashes": CRASHES, "pulls": PULLS, "cold": NOT_READY}
    items = [deployment(name, container) for name, container in broken.items()]
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    words = {
        "deployment/crashes": ["CrashLoopBackOff", "exit code 3", "log: cannot reach db:5432", "--previous"],
        "deployment/pulls": ["image 127.0.0.1:1/nothing/here:1 cannot be pulled", "the node does not reach the registry"],
        "deployment/cold": ["its readiness probe fails (exec sh -c echo cache is cold", "Readiness probe failed: cache is cold"],
    }

    def told() -> bool:
        text = cluster.pybernetes("why", "--all", "-n", namespace, "-o", "json", check=False)
        answers = {each["subject"]: json.dumps(each) for each in json.loads(text)["explanations"]}
        assert answers.keys() == words.keys()
        for subject, wanted in words.items():
            assert [word for word in wanted if word not in answers[subject]] == [], answers[subject]
        return True

    eventually(told, 60)
    tree = cluster.pybernetes("why", "deploy/crashes", "-n", namespace, check=False)
    assert tree.startswith(f"deployment/crashes in {namespace}: 0 of 1 pods available"), tree
