"""Manifests that several end-to-end tests apply, as JSON text."""

import json
from typing import Any

from bootstrap.demo import REFERENCE


def web(name: str = "web", replicas: int = 2, version: str = "1", pre_stop: int = 0, node_port: bool = False) -> str:
    """A Deployment of the demo's web server whose page says ``version``, and its Service."""
    container: dict[str, Any] = {
        "name": "httpd",
        "image": REFERENCE,
        "env": [{"name": "VERSION", "value": version}],
        "ports": [{"name": "http", "containerPort": 8080}],
        "readinessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 1},
    }
    if pre_stop:
        container["lifecycle"] = {"preStop": {"sleep": {"seconds": pre_stop}}}
    labels = {"app": name}
    template = {"terminationGracePeriodSeconds": 10, "containers": [container]}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": template},
        },
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "type": "NodePort" if node_port else "ClusterIP",
            "selector": labels,
            "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
        },
    }
    return "\n".join(json.dumps(item) for item in (deployment, service))


def pod(name: str, *command: str, **spec: Any) -> str:
    """One pod that runs a busybox command."""
    container = {"name": "main", "image": REFERENCE, "command": list(command)}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [container], **spec},
        }
    )
