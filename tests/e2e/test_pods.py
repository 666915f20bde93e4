"""What a pod's specification promises, on real containers: configuration, volumes, restarts, probes, ends."""

import json
from typing import Any

import pytest

from bootstrap.demo import REFERENCE
from tests.support.cluster import Cluster, eventually
from tests.support.manifests import pod

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]


def phase(cluster: Cluster, namespace: str, name: str) -> str:
    return str(cluster.get("pod", name, "-n", namespace)["status"]["phase"])


def apply(cluster: Cluster, namespace: str, *objects: str) -> None:
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin="\n".join(objects))


def test_environment_and_volumes_from_every_source(cluster: Cluster, namespace: str) -> None:
    config = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf"}, "data": {"colour": "blue"}})
    secret = json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": {"word": "sesame"}})
    script = "echo $COLOUR $WORD $NAME; cat /conf/colour /keys/word /all/word /all/labels; echo kept > /scratch/x; cat /scratch/x"
    container: dict[str, Any] = {
        "name": "main",
        "image": REFERENCE,
        "command": ["sh", "-c", script],
        "env": [
            {"name": "COLOUR", "valueFrom": {"configMapKeyRef": {"name": "conf", "key": "colour"}}},
            {"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "word"}}},
            {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ],
        "volumeMounts": [{"name": name, "mountPath": f"/{name}"} for name in ("conf", "keys", "all", "scratch")],
    }
    volumes = [
        {"name": "conf", "configMap": {"name": "conf"}},
        {"name": "keys", "secret": {"secretName": "keys"}},
        {
            "name": "all",
            "projected": {
                "sources": [
                    {"secret": {"name": "keys"}},
                    {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
                ]
            },
        },
        {"name": "scratch", "emptyDir": {}},
    ]
    apply(cluster, namespace, config, secret, pod("full", containers=[container], volumes=volumes, restartPolicy="Never"))
    eventually(lambda: phase(cluster, namespace, "full") == "Succeeded", 30)

    assert cluster.kubectl("logs", "full", "-n", namespace) == 'blue sesame full\nbluesesamesesameapp="full"kept\n'


def test_a_changed_config_map_reaches_the_volume(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("create", "configmap", "conf", "--from-literal=colour=red", "-n", namespace)
    script = "while sleep 0.5; do cat /conf/colour; echo; done"
    container = {
        "name": "main",
        "image": REFERENCE,
        "command": ["sh", "-c", script],
        "volumeMounts": [{"name": "conf", "mountPath": "/conf"}],
    }
    apply(cluster, namespace, pod("reader", containers=[container], volumes=[{"name": "conf", "configMap": {"name": "conf"}}]))
    eventually(lambda: "red" in cluster.kubectl("logs", "reader", "-n", namespace), 30)

    cluster.kubectl("patch", "configmap", "conf", "-n", namespace, "-p", '{"data":{"colour":"blue"}}')

    eventually(lambda: "blue" in cluster.kubectl("logs", "reader", "-n", namespace), 90)


def test_a_failing_container_backs_off(cluster: Cluster, namespace: str) -> None:
    apply(cluster, namespace, pod("crasher", "sh", "-c", "exit 3"))

    def backing_off() -> bool:
        status = cluster.get("pod", "crasher", "-n", namespace)["status"]["containerStatuses"][0]
        waiting = status["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff"
        return bool(waiting and status["lastState"]["terminated"]["exitCode"] == 3 and status["restartCount"] >= 1)

    eventually(backing_off, 40)
    assert "CrashLoopBackOff" in cluster.kubectl("get", "pod", "crasher", "-n", namespace)


@pytest.mark.parametrize(("code", "expected"), [(0, "Succeeded"), (1, "Failed")])
def test_a_pod_that_is_never_restarted_ends(cluster: Cluster, namespace: str, code: int, expected: str) -> None:
    apply(cluster, namespace, pod("once", "sh", "-c", f"exit {code}", restartPolicy="Never"))

    eventually(lambda: phase(cluster, namespace, "once") == expected, 30)


def test_a_failed_liveness_probe_restarts_the_container(cluster: Cluster, namespace: str) -> None:
    probe = {"exec": {"command": ["cat", "/alive"]}, "periodSeconds": 1, "failureThreshold": 1, "initialDelaySeconds": 2}
    container = {
        "name": "main",
        "image": REFERENCE,
        "command": ["sh", "-c", "echo yes > /alive; sleep 4; rm /alive; sleep 600"],
        "livenessProbe": probe,
    }
    apply(cluster, namespace, pod("sick", containers=[container]))

    eventually(lambda: cluster.get("pod", "sick", "-n", namespace)["status"]["containerStatuses"][0]["restartCount"] >= 1, 40)
    assert "Liveness probe failed" in cluster.kubectl("describe", "pod", "sick", "-n", namespace)


def test_readiness_by_tcp_follows_the_port(cluster: Cluster, namespace: str) -> None:
    container = {
        "name": "main",
        "image": REFERENCE,
        "command": ["sh", "-c", "sleep 3; exec httpd -f -p 8080"],
        "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
    }
    apply(cluster, namespace, pod("late", containers=[container]))
    eventually(lambda: phase(cluster, namespace, "late") == "Running", 20)
    assert "0/1" in cluster.kubectl("get", "pod", "late", "-n", namespace)

    eventually(lambda: "1/1" in cluster.kubectl("get", "pod", "late", "-n", namespace), 20)


def test_an_image_that_does_not_exist_is_named(cluster: Cluster, namespace: str) -> None:
    container = {"name": "main", "image": "localhost/no-such-image:1", "imagePullPolicy": "Never"}
    apply(cluster, namespace, pod("unknown", containers=[container]))

    eventually(lambda: "ErrImageNeverPull" in cluster.kubectl("get", "pod", "unknown", "-n", namespace), 20)


def test_a_pod_that_fits_nowhere_says_why(cluster: Cluster, namespace: str) -> None:
    container = {"name": "main", "image": REFERENCE, "resources": {"requests": {"cpu": "1000"}}}
    apply(cluster, namespace, pod("huge", containers=[container]))

    eventually(lambda: "Insufficient cpu" in cluster.kubectl("describe", "pod", "huge", "-n", namespace), 20)
    assert phase(cluster, namespace, "huge") == "Pending"


def test_deletion_gives_the_container_its_grace(cluster: Cluster, namespace: str) -> None:
    script = "trap 'echo bye > /shared/end; sleep 2; exit 0' TERM; while :; do sleep 0.1; done"
    mount = [{"name": "shared", "mountPath": "/shared"}]
    container = {"name": "main", "image": REFERENCE, "command": ["sh", "-c", script], "volumeMounts": mount}
    apply(
        cluster,
        namespace,
        pod("polite", containers=[container], volumes=[{"name": "shared", "emptyDir": {}}], terminationGracePeriodSeconds=20),
    )
    eventually(lambda: phase(cluster, namespace, "polite") == "Running", 20)

    cluster.kubectl("delete", "pod", "polite", "-n", namespace, "--wait=false")

    eventually(lambda: "Terminating" in cluster.kubectl("get", "pod", "polite", "-n", namespace), 5)
    eventually(lambda: "NotFound" in cluster.kubectl("get", "pod", "polite", "-n", namespace, check=False), 15)
