"""Flags of `up`: given now, else remembered, else upstream's defaults."""

from pathlib import Path

import click
import pytest

from cli.cluster import plan, settings
from cli.cluster.layout import Layout
from cli.cluster.settings import Settings

GIVEN = {"node_name": "n1", "node_ip": "127.0.0.1"}


def silent(text: str) -> None:
    raise AssertionError(f"nothing to tell, but told: {text}")


def test_defaults_are_upstream_s(tmp_path: Path) -> None:
    resolved = settings.resolve(GIVEN, tmp_path / "cluster.json", silent)

    assert (resolved.secure_port, resolved.kubelet_port) == (6443, 10250)
    assert (resolved.service_cluster_ip_range, resolved.cluster_cidr) == ("10.96.0.0/12", "10.244.0.0/16")
    assert (resolved.service_ip, resolved.pod_cidr) == ("10.96.0.1", "10.244.0.0/24")


def test_what_was_saved_is_the_default_of_the_next_time(tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    settings.save(settings.resolve({**GIVEN, "secure_port": 7443}, file, silent), file)

    again = settings.resolve({"kubelet_port": 11250, "secure_port": None}, file, silent)

    assert (again.node_name, again.secure_port, again.kubelet_port) == ("n1", 7443, 11250)


def test_a_setting_of_a_newer_version_is_ignored(tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    file.write_text('{"node_name": "n1", "node_ip": "192.0.2.7", "from_the_future": 1}')

    assert settings.load(file) == Settings(node_name="n1", node_ip="192.0.2.7")


@pytest.mark.parametrize(
    "content", ["", "{", "[1]", '{"secure_port": "a"}'], ids=["empty", "torn", "not an object", "a wrong type"]
)
def test_an_unreadable_file_is_named(tmp_path: Path, content: str) -> None:
    file = tmp_path / "cluster.json"
    file.write_text(content)

    with pytest.raises(click.ClickException, match=r"cluster\.json.*mend or remove"):
        settings.load(file)


@pytest.mark.parametrize("flag", ["service_cluster_ip_range", "cluster_cidr"])
def test_a_bad_range_names_its_flag(tmp_path: Path, flag: str) -> None:
    with pytest.raises(click.ClickException, match=f"--{flag.replace('_', '-')}"):
        settings.resolve({**GIVEN, flag: "10.96.0.0/99"}, tmp_path / "cluster.json", silent)


@pytest.mark.parametrize(
    ("flag", "value", "text"),
    [
        ("node_name", "A_b", "--node-name 'A_b': a lowercase RFC 1123 subdomain"),
        ("cluster_domain", "a b", "--cluster-domain 'a b'"),
        ("node_ip", "abc", "--node-ip: 'abc' does not appear to be"),
        ("bind_address", "abc", "--bind-address: 'abc' does not appear to be"),
        ("service_node_port_range", "x", "--service-node-port-range 'x': write two ports"),
        ("service_node_port_range", "9000-7000", "--service-node-port-range '9000-7000'"),
        ("secure_port", 10250, "--secure-port and --kubelet-port are both 10250"),
        ("secure_port", 30443, "--secure-port 30443 lies in --service-node-port-range"),
        ("service_cluster_ip_range", "10.244.128.0/20", "and --cluster-cidr 10.244.0.0/16 overlap"),
        ("service_cluster_ip_range", "10.96.0.0/31", "16 addresses or more"),
        ("cluster_cidr", "fd00::/48", "--cluster-cidr fd00::/48: give an IPv4 range"),
        ("bridge", "a/b", "--bridge 'a/b'"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(tmp_path: Path, flag: str, value: object, text: str) -> None:
    with pytest.raises(click.ClickException) as refusal:
        settings.resolve({**GIVEN, flag: value}, tmp_path / "cluster.json", silent)
    assert text in refusal.value.message


def test_a_lost_address_is_replaced_by_one_the_machine_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "cluster.json"
    settings.save(Settings(node_name="n1", node_ip="192.0.2.7"), file)
    monkeypatch.setattr(settings, "host_address", lambda: "127.0.0.1")
    told: list[str] = []

    assert settings.resolve({}, file, told.append).node_ip == "127.0.0.1"
    assert told == ["192.0.2.7 is no longer an address of this machine: the node moves to 127.0.0.1"]


def test_an_address_given_by_flag_is_never_second_guessed(tmp_path: Path) -> None:
    assert settings.resolve({**GIVEN, "node_ip": "192.0.2.7"}, tmp_path / "cluster.json", silent).node_ip == "192.0.2.7"


def flags_of(tmp_path: Path, **given: object) -> list[str]:
    chosen = settings.resolve({**GIVEN, **given}, tmp_path / "cluster.json", silent)
    return plan.storage_flags(Layout(tmp_path), chosen)


def test_objects_are_in_a_file_unless_etcd_is_asked_for(tmp_path: Path) -> None:
    assert flags_of(tmp_path) == ["--storage-backend=sqlite", f"--storage-path={tmp_path}/state.db"]


def test_a_private_etcd_has_keys_of_its_own(tmp_path: Path) -> None:
    keys = tmp_path / "pki" / "etcd"
    assert flags_of(tmp_path, storage="etcd", etcd_port=12379) == [
        "--storage-backend=etcd3",
        "--etcd-servers=https://127.0.0.1:12379",
        f"--etcd-cafile={keys}/ca.crt",
        f"--etcd-certfile={keys}/apiserver-etcd-client.crt",
        f"--etcd-keyfile={keys}/apiserver-etcd-client.key",
    ]


def test_servers_of_somebody_else_are_used_as_they_are(tmp_path: Path) -> None:
    given = {"etcd_servers": "https://a:2379,https://b:2379", "etcd_cafile": "/keys/ca.crt"}
    wanted = ["--storage-backend=etcd3", "--etcd-servers=https://a:2379,https://b:2379", "--etcd-cafile=/keys/ca.crt"]
    assert flags_of(tmp_path, **given) == wanted
    assert plan.ETCD not in plan.uses(settings.resolve({**GIVEN, **given}, tmp_path / "cluster.json", silent))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"storage": "etcd", "etcd_cafile": "/ca.crt"}, "--etcd-cafile: a private etcd has keys of its own"),
        ({"etcd_servers": "https://a:2379", "etcd_certfile": "/c.crt"}, "--etcd-certfile and --etcd-keyfile go together"),
        ({"storage": "sqlite", "etcd_servers": "https://a:2379"}, "exclude each other"),
        ({"storage": "etcd", "etcd_port": 6443}, "--secure-port and --etcd-port are both 6443"),
    ],
)
def test_flags_about_etcd_that_do_not_fit_are_named(tmp_path: Path, given: dict[str, object], text: str) -> None:
    with pytest.raises(click.ClickException, match=text):
        settings.resolve({**GIVEN, **given}, tmp_path / "cluster.json", silent)
