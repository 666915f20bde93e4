"""KubeletConfiguration files and flags."""

from pathlib import Path
from typing import Any

import click
import pytest

from component.errors import OperatorError
from node.kubelet.__main__ import DAEMON, read_config
from node.kubelet.admission import refuse
from node.kubelet.config import ConfigError, KubeletConfig, document, parse
from node.kubelet.kubelet import refuse_host
from node.kubelet.machine import Machine
from tests.support.pod_workers import container, pod

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def test_fields_are_read() -> None:
    lines = ["maxPods: 20", "clusterDNS: [10.96.0.10]", "syncFrequency: 1m30s", "containerLogMaxSize: 5Mi"]
    config = parse(HEAD + "\n".join([*lines, "authentication: {x509: {clientCAFile: /ca}}"]))
    assert config.max_pods == 20
    assert config.cluster_dns == ("10.96.0.10",)
    assert config.sync_frequency == 90
    assert config.container_log_max_size == 5 << 20
    assert config.client_ca_file == Path("/ca")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("kind: Pod", "expected kind KubeletConfiguration", id="kind"),
        pytest.param(HEAD + "maxPodz: 3", 'unknown field "maxPodz"', id="unknown"),
        pytest.param(HEAD + "authentication: {anon: true}", 'unknown field "authentication.anon"', id="unknown, nested"),
        pytest.param(HEAD + "maxPods: many", "maxPods: must be a whole number", id="type"),
        pytest.param(HEAD + "cgroupDriver: magic", "cgroupDriver must be cgroupfs or systemd", id="value"),
        pytest.param(HEAD + "syncFrequency: soon", "syncFrequency", id="duration"),
        pytest.param(HEAD + "tlsCertFile: /x", "must be given together", id="pair"),
        pytest.param(HEAD + "authorization: {mode: AlwaysAllow}", "authorization.mode must be Webhook", id="authorization"),
        pytest.param(HEAD + "authentication: {anonymous: {enabled: true}}", "anonymous.enabled false", id="anonymous"),
        pytest.param("{", "not YAML", id="yaml"),
    ],
)
def test_mistakes_are_named(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        parse(text)


def _options(*arguments: str) -> dict[str, Any]:
    command = click.Command("kubelet", params=list(DAEMON.params))
    return command.make_context("kubelet", list(arguments)).params


def test_flags_win_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(HEAD + "maxPods: 20\nport: 1")
    config = read_config(_options("--config", str(tmp_path / "c.yaml"), "--port", "2", "--hostname-override", "Node-A"))
    assert (config.max_pods, config.port, config.node_name) == (20, 2, "node-a")


def test_a_private_root_keeps_its_logs(tmp_path: Path) -> None:
    assert read_config(_options("--root-dir", "/x")).pod_logs_dir == Path("/x/pod-logs")
    assert read_config(_options()).pod_logs_dir == Path("/var/log/pods")


def test_taints_and_labels() -> None:
    config = read_config(_options("--register-with-taints", "a=b:NoSchedule,c:NoExecute", "--node-labels", "x=1,y=2"))
    assert config.register_with_taints == (
        {"key": "a", "value": "b", "effect": "NoSchedule"},
        {"key": "c", "effect": "NoExecute"},
    )
    assert config.node_labels == {"x": "1", "y": "2"}
    with pytest.raises(click.UsageError, match="invalid taint"):
        read_config(_options("--register-with-taints", "a=b"))
    with pytest.raises(click.UsageError, match="not-an-ip"):
        read_config(_options("--node-ip", "not-an-ip"))


async def test_a_kubeconfig_is_needed() -> None:
    with pytest.raises(click.UsageError, match="--kubeconfig is needed"):
        await DAEMON.main(_options())


def test_admission_counts_what_is_taken() -> None:
    allocatable = {"cpu": "1", "memory": "1Gi", "pods": "2"}
    small = pod("a", containers=[container(resources={"requests": {"cpu": "600m"}})])
    assert refuse(small, [], allocatable) is None
    refused = refuse(pod("b", containers=[container(resources={"requests": {"cpu": "600m"}})]), [small], allocatable)
    assert refused == (
        "OutOfcpu",
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 600, used: 600, capacity: 1000",
    )
    assert refuse(pod(), [pod("a"), pod("b")], allocatable) == (
        "OutOfpods",
        "Pod was rejected: Node didn't have enough resource: pods, requested: 1, used: 2, capacity: 2",
    )
    done = {**pod("a"), "status": {"phase": "Succeeded"}}
    assert refuse(pod(), [done, done], allocatable) is None


NODE = {"metadata": {"name": "n", "labels": {"disk": "ssd"}}, "spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}
ROOM = {"cpu": "4", "memory": "8Gi", "pods": "110"}


def on_port(number: int, **more: Any) -> dict[str, Any]:
    return pod(str(number), containers=[container(ports=[{"containerPort": 80, "hostPort": number, **more}])])


@pytest.mark.parametrize(
    ("wanted", "others", "node", "reason", "why"),
    [
        pytest.param(
            on_port(8080),
            [on_port(8080, hostIP="192.0.2.1")],
            None,
            "NodePorts",
            "node(s) didn't have free ports for the requested pod ports",
            id="port",
        ),
        pytest.param(on_port(8080, protocol="UDP"), [on_port(8080)], None, None, "", id="other protocol"),
        pytest.param(on_port(1, hostIP="192.0.2.1"), [on_port(1, hostIP="192.0.2.2")], None, None, "", id="other address"),
        pytest.param(
            pod(nodeSelector={"disk": "tape"}),
            [],
            NODE,
            "NodeAffinity",
            "node(s) didn't match Pod's node affinity/selector",
            id="selector",
        ),
        pytest.param(pod(nodeSelector={"disk": "tape"}), [], None, None, "", id="no node yet"),
        pytest.param(pod(), [], NODE, "TaintToleration", "node(s) had taints that the pod didn't tolerate", id="taint"),
        pytest.param(pod(nodeSelector={"disk": "ssd"}, tolerations=[{"operator": "Exists"}]), [], NODE, None, "", id="tolerated"),
    ],
)
def test_admission_looks_again_at_what_the_scheduler_may_not_have_seen(
    wanted: dict[str, Any], others: list[dict[str, Any]], node: dict[str, Any] | None, reason: str | None, why: str
) -> None:
    refused = refuse(wanted, others, ROOM, node)
    assert refused == (None if reason is None else (reason, f"Pod was rejected: Predicate {reason} failed: {why}"))


@pytest.mark.parametrize(
    ("offered", "reason"),
    [pytest.param({"example.com/gpu": "3"}, "OutOfexample.com/gpu", id="too few"), pytest.param({}, None, id="unknown here")],
)
def test_extended_resources_are_the_nodes_to_count(offered: dict[str, str], reason: str | None) -> None:
    def wants(count: str) -> dict[str, Any]:
        return pod(containers=[container(resources={"requests": {"example.com/gpu": count}})])

    node = {"metadata": {"name": "n"}, "status": {"allocatable": offered}}
    assert refuse(wants("2"), [], ROOM, node) is None
    refused = refuse(wants("2"), [wants("2")], ROOM, node)
    assert (refused[0] if refused else None) == reason


def test_static_pods_run_whatever_the_taints() -> None:
    static = pod()
    static["metadata"]["annotations"] = {"kubernetes.io/config.source": "file"}
    assert refuse(static, [], ROOM, NODE) is None


def test_defaults_are_upstreams() -> None:
    config = KubeletConfig()
    assert (config.port, config.healthz_port, config.max_pods, config.node_lease_duration_seconds) == (10250, 10248, 110, 40)


def test_the_configuration_in_effect_is_shown() -> None:
    shown = document(KubeletConfig(max_pods=7, cluster_dns=("10.96.0.10",), client_ca_file=Path("/ca")))
    assert shown["maxPods"] == 7
    assert shown["syncFrequency"] == "60s"
    assert shown["authentication"]["x509"]["clientCAFile"] == "/ca"
    assert shown["clusterDNS"] == ["10.96.0.10"]


def test_a_machine_can_be_refused() -> None:
    refuse_host(KubeletConfig(), Machine(1, 1, 1, swap_bytes=1))
    with pytest.raises(OperatorError, match="swapoff"):
        refuse_host(KubeletConfig(fail_swap_on=True), Machine(1, 1, 1, swap_bytes=1))
    with pytest.raises(OperatorError, match="cgroup v2"):
        refuse_host(KubeletConfig(fail_cgroup_v1=True), Machine(1, 1, 1, cgroup_version=1))
