"""Stock helm installs, upgrades, tests, rolls back and uninstalls a chart written here, on real containers."""

import json
import re
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bootstrap.demo import REFERENCE
from tests.support import clients
from tests.support.cluster import Cluster

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

NOTES = "Reach {{ .Release.Name }} at http://{{ .Release.Name }}.{{ .Release.Namespace }}.svc.\n"
VALUES = f"replicas: 1\nimage: {REFERENCE}\ngreeting: hello\nversion: '1'\n"
CHART = """\
apiVersion: v2
name: shop
version: {version}
appVersion: "{version}"
kubeVersion: ">=1.30.0-0"
"""
TEMPLATES = {
    "_helpers.tpl": """\
{{- define "shop.labels" -}}
app.kubernetes.io/name: shop
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
""",
    "NOTES.txt": NOTES,
    "settings.yaml": """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-settings
  labels: {{- include "shop.labels" . | nindent 4 }}
data:
  greeting: {{ .Values.greeting | quote }}
  kubernetes: {{ .Capabilities.KubeVersion.Version | quote }}
  {{- $name := printf "%s-settings" .Release.Name }}
  previous: {{ dig "data" "greeting" "none" (lookup "v1" "ConfigMap" .Release.Namespace $name) | quote }}
  {{- if .Capabilities.APIVersions.Has "apps/v1/Deployment" }}
  deployments: "yes"
  {{- end }}
""",
    "web.yaml": """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}
  labels: {{- include "shop.labels" . | nindent 4 }}
spec:
  replicas: {{ .Values.replicas }}
  selector:
    matchLabels: {{- include "shop.labels" . | nindent 6 }}
  template:
    metadata:
      labels: {{- include "shop.labels" . | nindent 8 }}
    spec:
      serviceAccountName: {{ .Release.Name }}
      terminationGracePeriodSeconds: 1
      containers:
      - name: httpd
        image: {{ .Values.image }}
        env:
        - name: VERSION
          value: {{ .Values.version | quote }}
        ports: [{name: http, containerPort: 8080}]
        readinessProbe: {httpGet: {path: /, port: http}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ .Release.Name }}
  labels: {{- include "shop.labels" . | nindent 4 }}
spec:
  selector: {{- include "shop.labels" . | nindent 4 }}
  ports: [{name: http, port: 80, targetPort: http}]
""",
    "account.yaml": """\
apiVersion: v1
kind: ServiceAccount
metadata: {name: {{ .Release.Name }}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: {{ .Release.Name }}}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: {{ .Release.Name }}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ .Release.Name }}}
subjects: [{kind: ServiceAccount, name: {{ .Release.Name }}, namespace: {{ .Release.Namespace }}}]
""",
    "hooks.yaml": """\
{{- range $hook, $command := dict "pre-install" "true" "pre-upgrade" (.Values.migration | default "true") "post-delete" "true" }}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ $.Release.Name }}-{{ $hook }}
  annotations:
    helm.sh/hook: {{ $hook }}
    helm.sh/hook-delete-policy: before-hook-creation
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: {{ $.Values.image }}, command: [sh, -c, {{ $command | quote }}]}]
{{- end }}
""",
    "tests/answers.yaml": """\
apiVersion: v1
kind: Pod
metadata:
  name: {{ .Release.Name }}-answers
  annotations: {helm.sh/hook: test}
spec:
  restartPolicy: Never
  containers:
  - name: main
    image: {{ .Values.image }}
    command: [sh, -c, "echo asking; wget -q -O - http://${{ .Release.Name | upper }}_SERVICE_HOST/ | grep Hello"]
""",
}


def write_chart(folder: Path, version: str) -> str:
    (folder / "templates/tests").mkdir(parents=True, exist_ok=True)
    (folder / "Chart.yaml").write_text(CHART.format(version=version))
    (folder / "values.yaml").write_text(VALUES)
    for name, text in TEMPLATES.items():
        (folder / "templates" / name).write_text(text)
    return str(folder)


@dataclass(frozen=True)
class Helm:
    cluster: Cluster
    home: Path
    namespace: str

    def run(self, *arguments: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        homes = [f"HELM_{kind}_HOME={self.home / kind.lower()}" for kind in ("CACHE", "CONFIG", "DATA")]
        target = (f"--kubeconfig={self.cluster.kubeconfig}", f"--namespace={self.namespace}")
        return self.cluster.run("env", *homes, clients.helm(), *arguments, *target, check=check, timeout=120)

    def __call__(self, *arguments: str) -> str:
        return self.run(*arguments).stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--output=json"))


@pytest.fixture
def helm(cluster: Cluster, tmp_path: Path) -> Iterator[Helm]:
    name = f"helm-{uuid.uuid4().hex[:8]}"
    yield Helm(cluster, tmp_path, name)
    cluster.kubectl("delete", "namespace", name, "--wait=false", check=False)


def test_a_release_from_install_to_uninstall(helm: Helm, tmp_path: Path) -> None:
    """One test: each step needs the one before, and rollouts take seconds."""
    get = lambda *what: helm.cluster.get(*what, "-n", helm.namespace)  # noqa: E731
    setting = lambda name: get("configmap", "web-settings")["data"].get(name)  # noqa: E731
    chart = write_chart(tmp_path / "shop", "1.0.0")

    said = helm("install", "web", chart, "--create-namespace", "--wait", "--timeout=60s")
    assert "STATUS: deployed" in said
    assert f"Reach web at http://web.{helm.namespace}.svc." in said
    assert get("deployment", "web")["status"]["readyReplicas"] == 1
    assert get("job", "web-pre-install")["status"]["succeeded"] == 1
    assert (setting("deployments"), setting("previous")) == ("yes", "none")
    assert setting("kubernetes").startswith("v1.36.")
    assert [(item["name"], item["revision"], item["status"]) for item in helm.json("list")] == [("web", "1", "deployed")]

    assert "Succeeded" in helm("test", "web", "--logs", "--timeout=60s")

    write_chart(tmp_path / "shop", "1.1.0")
    said = helm("upgrade", "web", chart, "--wait", "--timeout=60s", "--set=greeting=bonjour,replicas=2,version=2")
    assert "REVISION: 2" in said
    assert get("deployment", "web")["status"]["readyReplicas"] == 2
    assert (setting("greeting"), setting("previous")) == ("bonjour", "hello")
    assert get("job", "web-pre-upgrade")["status"]["succeeded"] == 1
    assert helm.json("get", "values", "web") == {"greeting": "bonjour", "replicas": 2, "version": 2}
    assert "kind: Deployment" in helm("get", "manifest", "web")
    assert "helm.sh/hook: pre-upgrade" in helm("get", "hooks", "web")
    assert "Reach web at" in helm("get", "notes", "web")
    assert helm.json("get", "metadata", "web")["version"] == "1.1.0"

    failed = helm.run("upgrade", "web", chart, "--timeout=60s", "--set=migration=exit 3", check=False)
    assert failed.returncode != 0
    assert "pre-upgrade hooks failed" in failed.stderr
    assert helm.json("status", "web")["info"]["status"] == "failed"

    assert "Rollback was a success" in helm("rollback", "web", "1", "--wait", "--timeout=60s")
    assert (setting("greeting"), get("deployment", "web")["spec"]["replicas"]) == ("hello", 1)
    history = helm.json("history", "web")
    assert [item["status"] for item in history] == ["superseded", "superseded", "failed", "deployed"]
    assert history[-1]["description"] == "Rollback to 1"

    refused = helm.run("upgrade", "web", chart, "--set=replicas=minus", check=False)
    assert refused.returncode != 0
    assert re.search("replicas", refused.stderr)

    helm("uninstall", "web", "--wait", "--timeout=60s")
    assert helm.json("list") == []
    left = get("deployments,services,pods,configmaps,roles,serviceaccounts", "--selector=app.kubernetes.io/name=shop")
    assert left["items"] == []
    assert get("job", "web-post-delete")["status"]["succeeded"] == 1
    assert get("secrets")["items"] == []


def test_a_chart_is_tried_without_writing_anything(helm: Helm, tmp_path: Path) -> None:
    chart = write_chart(tmp_path / "shop", "1.0.0")
    helm.cluster.kubectl("create", "namespace", helm.namespace)

    rendered = helm("install", "web", chart, "--dry-run=server")

    assert 'greeting: "hello"' in rendered
    assert helm.cluster.get("secrets,deployments", "-n", helm.namespace)["items"] == []


def test_an_object_of_another_owner_is_not_taken(helm: Helm, tmp_path: Path) -> None:
    chart = write_chart(tmp_path / "shop", "1.0.0")
    helm.cluster.kubectl("create", "namespace", helm.namespace)
    helm.cluster.kubectl("create", "configmap", "web-settings", "-n", helm.namespace)

    refused = helm.run("install", "web", chart, check=False)

    assert refused.returncode != 0
    assert "exists and cannot be imported into the current release" in refused.stderr
