"""The CIS Kubernetes Benchmark's checks of flags and files, against what ``pybernetes up`` really starts and writes.

Numbers are those of the benchmark's 1.12 (kube-bench cis-1.12); docs/security.md lists all that apply.
"""

import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import pytest

from bootstrap.kubeconfigs import write_kubeconfigs
from bootstrap.pki import Identity, ensure_pki
from cli.cluster import plan
from cli.cluster.layout import Layout
from cli.cluster.settings import Settings
from controlplane.apiserver import __main__ as apiserver
from controlplane.apiserver.admission import catalog
from controlplane.controllers import __main__ as controllers
from controlplane.scheduler import __main__ as scheduler
from node.kubelet import __main__ as kubelet

SETTINGS = Settings(node_name="n", node_ip="192.0.2.1")
Flags = dict[str, str]


def given(flags: list[str]) -> Flags:
    return {name: value for name, _, value in (flag.partition("=") for flag in flags)}


@pytest.fixture(name="layout")
def _layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path)


@pytest.fixture
def server(layout: Layout) -> Flags:
    return given(plan.apiserver_flags(layout, SETTINGS))


@pytest.fixture
def manager(layout: Layout) -> Flags:
    return given(plan.controller_flags(layout, SETTINGS))


def default(params: Sequence[click.Parameter], flag: str) -> object:
    return next(param.default for param in params if flag in param.opts)


def test_1_1_keys_and_kubeconfigs_are_their_owner_s(tmp_path: Path) -> None:
    identity = Identity("n", "192.0.2.1", "10.96.0.1")
    pki, kubeconfigs = tmp_path / "pki", tmp_path / "kubeconfigs"
    pki.mkdir(), kubeconfigs.mkdir()  # type: ignore[func-returns-value]
    ensure_pki(pki, identity)
    write_kubeconfigs(pki, kubeconfigs, tmp_path / "admin.kubeconfig", identity)

    def files() -> Iterator[Path]:
        yield from (*pki.glob("*.key"), pki / "tokens.csv", *kubeconfigs.iterdir(), tmp_path / "admin.kubeconfig")

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in files()}
    assert len(modes) > 10
    assert set(modes.values()) == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) & 0o022 for path in pki.glob("*.crt")} == {0}


def test_1_2_the_api_server_s_flags(server: Flags) -> None:
    assert server["--kubelet-client-certificate"]
    assert server["--kubelet-client-key"]
    assert server["--kubelet-certificate-authority"]  # 1.2.5
    assert "--authorization-mode" not in server  # 1.2.6 to 1.2.8: the default
    assert server["--audit-log-path"]
    assert int(server["--audit-log-maxsize"])
    assert int(server["--audit-log-maxbackup"])
    assert server["--service-account-key-file"]  # 1.2.21
    assert server["--tls-cert-file"]
    assert server["--tls-private-key-file"]
    assert server["--client-ca-file"]
    assert server["--encryption-provider-config"]  # 1.2.26


def test_1_2_admission_by_default() -> None:
    plugins = catalog.chosen()
    assert plugins >= {"ServiceAccount", "NamespaceLifecycle", "NodeRestriction"}  # 1.2.12 to 1.2.14
    assert not {"AlwaysAdmit", "AlwaysDeny"} & plugins  # 1.2.10


@pytest.mark.parametrize(
    "params", [apiserver.PARAMS, controllers.DAEMON.params, scheduler.DAEMON.params], ids=["api", "manager", "scheduler"]
)
def test_profiling_is_not_there_to_be_switched_on(params: Sequence[click.Parameter]) -> None:
    """1.2.19, 1.3.2, 1.4.1: the flag is understood and does nothing; ``test_input.py`` asks for the pages."""
    options = [param for param in params if "--profiling" in param.opts]
    assert all("ccepted" in str(getattr(param, "help", "")) or getattr(param, "hidden", False) for param in options)


def test_1_3_each_controller_has_credentials_of_its_own(manager: Flags) -> None:
    assert manager.get("--use-service-account-credentials", "true") == "true"  # 1.3.3
    assert default(controllers.DAEMON.params, "--use-service-account-credentials") is True
    assert manager["--root-ca-file"]  # 1.3.5
    assert manager["--bind-address"] == "127.0.0.1"  # 1.3.7
    assert given(plan.scheduler_flags(Layout(Path("/d")), SETTINGS))["--bind-address"] == "127.0.0.1"  # 1.4.2


def test_4_2_the_kubelet_s_flags(layout: Layout) -> None:
    flags = given(plan.kubelet_flags(layout, SETTINGS, "unix:///c"))
    assert flags["--client-ca-file"]  # 4.2.3
    assert flags["--tls-cert-file"]
    assert flags["--tls-private-key-file"]
    names = {opt for param in kubelet.DAEMON.params for opt in param.opts}
    assert "--anonymous-auth" not in flags  # 4.2.1: nobody is anonymous, whatever the flag says (test_server.py)
    if "--read-only-port" in names:  # 4.2.4
        assert default(kubelet.DAEMON.params, "--read-only-port") in [0, None]


def test_4_3_the_proxy_s_metrics_stay_on_the_machine(layout: Layout) -> None:
    flags = given(plan.proxy_flags(layout, SETTINGS))
    assert flags["--metrics-bind-address"].startswith("127.0.0.1:")  # 4.3.1
