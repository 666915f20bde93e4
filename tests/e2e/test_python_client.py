"""The Python package ``kubernetes`` with real containers: watch, logs that are followed, a shell, deletion."""

import json
import sys
from pathlib import Path

import pytest

from bootstrap.demo import REFERENCE
from tests.support.cluster import Cluster, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]
SCRIPT = Path(__file__).with_name("python_client_script.py")


def test_a_pod_by_the_python_client(cluster: Cluster, namespace: str) -> None:
    eventually(lambda: cluster.kubectl("get", "serviceaccount", "default", "-n", namespace, check=False).startswith("NAME"))

    seen = json.loads(cluster.run(sys.executable, str(SCRIPT), str(cluster.kubeconfig), namespace, REFERENCE, timeout=120).stdout)

    assert seen == {
        "type": "MODIFIED",
        "log": ["line 1", "line 2", "line 3"],
        "exec": ["out\n", "err\n", 5],
        "deleted": "p",
    }
