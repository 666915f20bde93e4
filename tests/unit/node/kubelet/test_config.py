"""KubeletConfiguration files and flags."""

import contextlib
from pathlib import Path
from typing import Any

import click
import hypothesis.strategies as st
import pytest
from hypothesis import given

from component.errors import OperatorError
from node.kubelet import config as _own
from node.kubelet import config_foreign as _foreign
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


@pytest.mark.parametrize(("able", "refused"), [(True, False), (False, True), (None, True)], ids=["able", "unable", "silent"])
def test_strict_groups_need_a_runtime_that_knows_them(able: bool | None, refused: bool) -> None:
    node = {"metadata": {"name": "n"}, "status": {} if able is None else {"features": {"supplementalGroupsPolicy": able}}}
    said = refuse(pod(securityContext={"supplementalGroupsPolicy": "Strict"}), [], ROOM, node)
    text = "SupplementalGroupsPolicy=Strict is not supported in this node"
    assert said == (("SupplementalGroupsPolicyNotSupported", text) if refused else None)
    assert refuse(pod(securityContext={"supplementalGroupsPolicy": "Merge"}), [], ROOM, node) is None


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


# what kubeadm v1.33 writes to /var/lib/kubelet/config.yaml
KUBEADM = """
apiVersion: kubelet.config.k8s.io/v1beta1
authentication:
  anonymous: {enabled: false}
  webhook: {cacheTTL: 0s, enabled: true}
  x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}
authorization:
  mode: Webhook
  webhook: {cacheAuthorizedTTL: 0s, cacheUnauthorizedTTL: 0s}
cgroupDriver: systemd
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
containerRuntimeEndpoint: ""
cpuManagerReconcilePeriod: 0s
crashLoopBackOff: {}
evictionPressureTransitionPeriod: 0s
fileCheckFrequency: 0s
healthzBindAddress: 127.0.0.1
healthzPort: 10248
httpCheckFrequency: 0s
imageMaximumGCAge: 0s
imageMinimumGCAge: 0s
kind: KubeletConfiguration
logging:
  flushFrequency: 0
  options: {json: {infoBufferSize: "0"}, text: {infoBufferSize: "0"}}
  verbosity: 0
memorySwap: {}
nodeStatusReportFrequency: 0s
nodeStatusUpdateFrequency: 0s
resolvConf: /run/systemd/resolve/resolv.conf
rotateCertificates: true
runtimeRequestTimeout: 0s
shutdownGracePeriod: 0s
shutdownGracePeriodCriticalPods: 0s
staticPodPath: /etc/kubernetes/manifests
streamingConnectionIdleTimeout: 0s
syncFrequency: 0s
volumeStatsAggPeriod: 0s
"""


def test_kubeadms_file_is_taken_and_its_zeros_are_the_defaults() -> None:
    config, default = parse(KUBEADM), KubeletConfig()
    for attribute in ("sync_frequency", "file_check_frequency", "node_status_update_frequency", "runtime_endpoint"):
        assert getattr(config, attribute) == getattr(default, attribute)
    assert (config.token_cache_ttl, config.authorized_cache_ttl, config.unauthorized_cache_ttl) == (120, 300, 30)
    assert config.rotate_certificates
    assert config.cgroup_driver == "systemd"
    assert config.static_pod_path == Path("/etc/kubernetes/manifests")
    assert config.ignored == ("logging",)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("readOnlyPort: 10255", "readOnlyPort: 10255 is not supported by this kubelet, only nothing"),
        ("memorySwap: {swap: x}", 'unknown field "memorySwap.swap"'),
        ("featureGates: {NoSuchGate: true}", "featureGates: unrecognized feature gate: NoSuchGate"),
        ("authorization: {webhook: {cacheTTL: 1s}}", 'unknown field "authorization.webhook.cacheTTL"'),
    ],
)
def test_policies_of_upstream_that_are_not_here_are_refused_by_name(line: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(HEAD + line)
    assert why in str(caught.value)


@pytest.mark.parametrize("line", ["cpuManagerPolicy: none", "readOnlyPort: 0", "memorySwap: {swapBehavior: NoSwap}", "tracing:"])
def test_a_policy_that_says_what_happens_anyway_is_taken(line: str) -> None:
    assert parse(HEAD + line).ignored == ()


def test_tuning_without_effect_is_named() -> None:
    assert parse(HEAD + "eventRecordQPS: 3\nkubeAPIQPS: 0").ignored == ("eventRecordQPS",)


def test_no_field_is_both_obeyed_and_foreign() -> None:
    assert not set(_own._FIELDS) & (set(_foreign.POLICIES) | _foreign.TUNING)
    assert set(_own._FIELDS) >= _own._ZERO_IS_DEFAULT


def test_files_of_a_folder_change_single_fields_in_the_order_of_their_names(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(HEAD + "maxPods: 20\nevictionHard: {memory.available: 1Gi}\nclusterDNS: [10.0.0.1]")
    folder = tmp_path / "d"
    (folder / "more").mkdir(parents=True)
    (folder / "10-a.conf").write_text(HEAD + "maxPods: 30\nevictionHard: {nodefs.available: 5%}\nclusterDNS: [10.0.0.2]")
    (folder / "20-b.conf").write_text(HEAD + "maxPods: 40\nfeatureGates: {AllAlpha: false}")
    (folder / "notes.txt").write_text("not read")
    (folder / "more" / "30-c.conf").write_text(HEAD + "clusterDomain: more.local")
    config = read_config(_options("--config", str(tmp_path / "c.yaml"), "--config-dir", str(folder)))
    assert config.max_pods == 40
    assert config.eviction_hard == {"memory.available": "1Gi", "nodefs.available": "5%"}
    assert config.cluster_dns == ("10.0.0.2",)
    assert config.cluster_domain == "more.local"
    assert read_config(_options("--config-dir", str(folder), "--max-pods", "7")).max_pods == 7
    (folder / "40-d.conf").write_text("maxPods: 50")
    with pytest.raises(click.UsageError, match=r"failed to load kubelet config file .*40-d.conf: expected kind"):
        read_config(_options("--config-dir", str(folder)))
    with pytest.raises(click.UsageError, match="no such folder"):
        read_config(_options("--config-dir", str(tmp_path / "none")))


_FIELD_NAMES = sorted({part for path in (*_own._FIELDS, *_foreign.POLICIES, *_foreign.TUNING) for part in path.split(".")})
_SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=6), st.sampled_from(["0s", "5m", "10Gi"])
)
_ANYTHING = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_FIELD_NAMES), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(_FIELD_NAMES), _ANYTHING, max_size=5))
def test_whatever_a_file_says_it_is_understood_or_refused(document: dict[str, Any]) -> None:
    """Never an error of the program itself, whatever the types."""
    with contextlib.suppress(ConfigError):
        _own.understood(document)


def test_what_the_node_allows_pods_and_pulls() -> None:
    text = "allowedUnsafeSysctls: [kernel.msg*]\nseccompDefault: true\nregistryPullQPS: 0\nregistryBurst: 0\n"
    text += "crashLoopBackOff: {maxContainerRestartPeriod: 30s}\nstaticPodURL: http://a/b\nstaticPodURLHeader: {X: [a, b]}\n"
    made = parse(HEAD + text)
    assert made.allowed_unsafe_sysctls == ("kernel.msg*",)
    assert (made.seccomp_default, made.registry_pull_qps, made.registry_burst) == (True, 0, 10)
    assert made.max_container_restart_period == 30
    assert (made.static_pod_url, made.static_pod_url_header) == ("http://a/b", {"X": ("a", "b")})
    assert document(made)["staticPodURLHeader"] == {"X": ["<masked>", "<masked>"]}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("allowedUnsafeSysctls: [vm.*]", "allowedUnsafeSysctls: the sysctls 'vm.\\*' are not known to be namespaced"),
        ("crashLoopBackOff: {maxContainerRestartPeriod: 10m}", "must be between 1s and 300s"),
        ("registryPullQPS: -1", "must not be a negative number"),
    ],
)
def test_what_the_node_cannot_allow(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        parse(HEAD + text)
