"""Stock kubectl's verbs, of two minors, answer as upstream's server makes them answer."""

import dataclasses
import json
import re
import subprocess
import time

import pytest

from tests.support import clients
from tests.support.cluster import ADDRESS, Cluster, eventually
from tests.support.manifests import pod, web

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]


@pytest.fixture(scope="module", params=clients.KUBECTLS)
def cluster(cluster: Cluster, request: pytest.FixtureRequest) -> Cluster:
    """The session's cluster, seen through each kubectl."""
    return dataclasses.replace(cluster, kubectl_program=clients.kubectl(request.param))


@pytest.fixture(scope="module")
def shop(cluster: Cluster) -> str:
    """A namespace with a web Deployment that is Ready, for the tests that only read it."""
    name = f"shop-{int(time.time())}"
    cluster.kubectl("create", "namespace", name)
    cluster.kubectl("apply", "-n", name, "-f", "-", stdin=web(replicas=1))
    cluster.kubectl("rollout", "status", "deployment/web", "-n", name, "--timeout=60s")
    return name


def test_apply_says_what_it_did(cluster: Cluster, namespace: str) -> None:
    assert cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=web()).splitlines() == [
        "deployment.apps/web created",
        "service/web created",
    ]
    assert cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=web()).splitlines() == [
        "deployment.apps/web unchanged",
        "service/web unchanged",
    ]
    assert "deployment.apps/web configured" in cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=web(version="2"))


def test_server_side_apply_names_the_manager_it_conflicts_with(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("apply", "--server-side", "--field-manager=one", "-n", namespace, "-f", "-", stdin=web(replicas=1))

    refused = cluster.kubectl(
        "apply", "--server-side", "--field-manager=two", "-n", namespace, "-f", "-", stdin=web(replicas=2), check=False
    )

    assert 'conflict with "one"' in refused
    assert ".spec.replicas" in refused


@pytest.mark.parametrize(
    ("what", "header"),
    [
        ("deployments", r"NAME +READY +UP-TO-DATE +AVAILABLE +AGE +CONTAINERS +IMAGES +SELECTOR"),
        ("replicasets", r"NAME +DESIRED +CURRENT +READY +AGE +CONTAINERS +IMAGES +SELECTOR"),
        ("pods", r"NAME +READY +STATUS +RESTARTS +AGE +IP +NODE +NOMINATED NODE +READINESS GATES"),
        ("services", r"NAME +TYPE +CLUSTER-IP +EXTERNAL-IP +PORT\(S\) +AGE +SELECTOR"),
        ("nodes", r"NAME +STATUS +ROLES +AGE +VERSION +INTERNAL-IP +EXTERNAL-IP +OS-IMAGE +KERNEL-VERSION +CONTAINER-RUNTIME"),
    ],
)
def test_wide_tables(cluster: Cluster, shop: str, what: str, header: str) -> None:
    assert re.match(header, cluster.kubectl("get", what, "-n", shop, "-o", "wide"))


def test_get_pod_row(cluster: Cluster, shop: str) -> None:
    row = cluster.kubectl("get", "pods", "-n", shop, "--no-headers").split()

    assert row[1:4] == ["1/1", "Running", "0"]


def test_get_watch_shows_changes(cluster: Cluster, namespace: str) -> None:
    watch = cluster.start(
        *cluster.kubectl_argv(),
        "get",
        "pods",
        "-n",
        namespace,
        "-w",
        "--no-headers",
        stdout=subprocess.PIPE,
    )
    try:
        time.sleep(0.5)
        cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=pod("seen", "sleep", "600"))
        assert watch.stdout is not None
        lines = []
        while not any("Running" in line for line in lines):
            lines.append(watch.stdout.readline())
    finally:
        watch.kill()
        watch.wait()
        assert watch.stdout is not None
        watch.stdout.close()

    assert all(line.startswith("seen") for line in lines)
    assert "Pending" in lines[0]


def test_describe(cluster: Cluster, shop: str) -> None:
    name = cluster.kubectl("get", "pods", "-n", shop, "-o", "name").strip()
    described = cluster.kubectl("describe", name, "-n", shop)

    for expected in ("Controlled By:  ReplicaSet/web-", "Successfully assigned", "Started", "QoS Class:", "Readiness:"):
        assert expected in described
    assert "ScalingReplicaSet" in cluster.kubectl("describe", "deployment", "web", "-n", shop)
    assert re.search(r"Endpoints: +\d+\.\d+\.\d+\.\d+:8080", cluster.kubectl("describe", "service", "web", "-n", shop))
    assert "KubeletReady" in cluster.kubectl("describe", "node", "node-1")


def test_logs_follow(cluster: Cluster, namespace: str) -> None:
    script = "for i in 1 2 3; do echo line $i; sleep 1; done"
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=pod("talker", "sh", "-c", script, restartPolicy="Never"))
    eventually(lambda: "line 1" in cluster.kubectl("logs", "talker", "-n", namespace))

    assert cluster.kubectl("logs", "-f", "talker", "-n", namespace) == "line 1\nline 2\nline 3\n"
    assert cluster.kubectl("logs", "talker", "-n", namespace, "--tail=1") == "line 3\n"


def test_exec_with_input_ends(cluster: Cluster, shop: str) -> None:
    name = cluster.kubectl("get", "pods", "-n", shop, "-o", "name").strip()

    assert cluster.kubectl("exec", "-i", name, "-n", shop, "--", "cat", stdin="hi\n") == "hi\n"


def test_exec_gives_the_exit_code(cluster: Cluster, shop: str) -> None:
    name = cluster.kubectl("get", "pods", "-n", shop, "-o", "name").strip()
    argv = [
        *cluster.kubectl_argv(),
        "exec",
        name,
        "-n",
        shop,
        "--",
        "sh",
        "-c",
        "echo out; echo err >&2; exit 7",
    ]

    done = cluster.run(*argv, check=False)

    assert (done.returncode, done.stdout) == (7, "out\n")
    assert "err\n" in done.stderr


def test_exec_with_a_terminal(cluster: Cluster, shop: str) -> None:
    name = cluster.kubectl("get", "pods", "-n", shop, "-o", "name").strip()
    command = f"{' '.join(cluster.kubectl_argv())} exec -it {name} -n {shop} -- sh -c 'test -t 0 && echo a terminal'"

    done = cluster.run("script", "--quiet", "--return", "--command", command, "/dev/null")

    assert "a terminal" in done.stdout


def test_port_forward(cluster: Cluster, shop: str) -> None:
    forward = cluster.start(
        *cluster.kubectl_argv(),
        "port-forward",
        "deployment/web",
        "-n",
        shop,
        "18080:8080",
        stdout=subprocess.PIPE,
    )
    try:
        assert forward.stdout is not None
        assert "Forwarding from 127.0.0.1:18080" in forward.stdout.readline()
        assert "Hello from web-" in cluster.curl("http://127.0.0.1:18080/")
    finally:
        forward.kill()
        forward.wait()
        assert forward.stdout is not None
        forward.stdout.close()


def test_edit(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("create", "configmap", "note", "--from-literal=colour=red", "-n", namespace)
    cluster.run("env", "KUBE_EDITOR=sed -i s/red/blue/", *cluster.kubectl_argv("edit", "configmap", "note", "-n", namespace))

    assert cluster.get("configmap", "note", "-n", namespace)["data"] == {"colour": "blue"}


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        ("strategic", '{"spec":{"template":{"spec":{"containers":[{"name":"httpd","env":[{"name":"EXTRA","value":"1"}]}]}}}}'),
        ("merge", '{"metadata":{"labels":{"tier":"front"}}}'),
        ("json", '[{"op":"replace","path":"/spec/replicas","value":0}]'),
    ],
)
def test_patch(cluster: Cluster, namespace: str, kind: str, patch: str) -> None:
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=web(replicas=1))
    assert "patched" in cluster.kubectl("patch", "deployment", "web", "-n", namespace, "--type", kind, "-p", patch)

    changed = cluster.get("deployment", "web", "-n", namespace)
    container = changed["spec"]["template"]["spec"]["containers"][0]
    assert {
        "strategic": [item["name"] for item in container["env"]] == ["EXTRA", "VERSION"] and container["ports"],
        "merge": changed["metadata"]["labels"] == {"app": "web", "tier": "front"},
        "json": changed["spec"]["replicas"] == 0,
    }[kind]


def test_explain(cluster: Cluster) -> None:
    explained = cluster.kubectl("explain", "deployment.spec.strategy.rollingUpdate")

    assert re.search(r"^KIND: +Deployment$", explained, re.M)
    assert re.search(r"^ +maxUnavailable\s+<(string|IntOrString)>$", explained, re.M)


def test_api_resources(cluster: Cluster) -> None:
    listed = cluster.kubectl("api-resources", "--no-headers")

    assert re.search(r"^pods +po +v1 +true +Pod$", listed, re.M)
    assert re.search(r"^deployments +deploy +apps/v1 +true +Deployment$", listed, re.M)
    assert "apps/v1" in cluster.kubectl("api-versions")


def test_wait_for_a_condition(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=pod("sleeper", "sleep", "600"))

    assert "condition met" in cluster.kubectl("wait", "--for=condition=Ready", "pod/sleeper", "-n", namespace, "--timeout=30s")


def test_cluster_info_and_version(cluster: Cluster) -> None:
    assert "control plane" in cluster.kubectl("cluster-info")
    version = json.loads(cluster.kubectl("version", "-o", "json"))["serverVersion"]
    assert (version["major"], version["minor"]) == ("1", "36")


def test_every_namespace_has_its_account_and_root_certificate(cluster: Cluster, namespace: str) -> None:
    eventually(lambda: cluster.kubectl("get", "serviceaccount", "default", "-n", namespace))
    bundle = eventually(lambda: cluster.get("configmap", "kube-root-ca.crt", "-n", namespace))
    assert "BEGIN CERTIFICATE" in bundle["data"]["ca.crt"]


def test_a_pod_speaks_to_the_api_with_its_own_token(cluster: Cluster, namespace: str) -> None:
    """The projected token, the CA bundle and the kubernetes Service, as seen from inside."""
    # what `kubectl create token` does, which Debian 12's kubectl does not have yet
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token"
    wanted = '{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}'
    token = json.loads(cluster.kubectl("create", "--raw", path, "-f", "-", stdin=wanted))["status"]["token"]
    assert token.count(".") == 2
    nobody = [cluster.kubectl_program, "--kubeconfig=/dev/null", f"--server=https://{ADDRESS}:6443"]
    trusting = f"--certificate-authority={cluster.data_dir / 'pki' / 'ca.crt'}"
    review = '{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}'
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    who = cluster.run(*nobody, trusting, f"--token={token}", "create", "--raw", path, "-f", "-", stdin=review).stdout
    assert json.loads(who)["status"]["userInfo"]["username"] == f"system:serviceaccount:{namespace}:default"

    script = "ls /var/run/secrets/kubernetes.io/serviceaccount; sleep 600"
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=pod("inside", "sh", "-c", script))
    eventually(lambda: cluster.kubectl("logs", "inside", "-n", namespace).split() == ["ca.crt", "namespace", "token"], 30)
