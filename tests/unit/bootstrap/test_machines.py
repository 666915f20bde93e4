"""The keys of several machines: each gets what it does there calls for, from the right authority, once."""

from copy import deepcopy
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from bootstrap.machines import DescriptionError, ensure, read
from component.x509 import CLIENT, SERVER, parse

DESCRIPTION: dict[str, Any] = {
    "server": "https://127.0.0.1:7443",
    "serviceCIDRs": ["10.96.0.0/12"],
    "apiNames": ["api.example.org", "192.0.2.100"],
    "machines": [
        {"name": "cp1", "addresses": ["192.0.2.1"], "roles": ["control-plane", "etcd", "node"]},
        {"name": "cp2", "addresses": ["192.0.2.2"], "roles": ["control-plane", "etcd"]},
        {"name": "n1", "addresses": ["192.0.2.3", "2001:db8::3"], "roles": ["node"]},
    ],
}


def files(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_node_gets_its_own_keys_and_no_other(tmp_path: Path) -> None:
    ensure(tmp_path, read(DESCRIPTION))

    own = tmp_path / "machines" / "n1"
    assert {file.name for file in own.iterdir()} == {
        *("kubelet.crt", "kubelet.key", "proxy.crt", "proxy.key", "proxy.conf", "dns.crt", "dns.key", "dns.conf")
    }
    serving = parse((own / "kubelet.crt").read_bytes())
    assert (serving.common_name, set(serving.ip_addresses)) == ("system:node:n1", {"192.0.2.3", "2001:db8::3"})
    assert serving.usages == (SERVER,)


def test_an_api_server_is_known_by_every_name_it_is_called(tmp_path: Path) -> None:
    ensure(tmp_path, read(DESCRIPTION))

    api = parse((tmp_path / "machines/cp2/apiserver.crt").read_bytes())
    assert {"10.96.0.1", "192.0.2.2", "192.0.2.100", "127.0.0.1"} <= set(api.ip_addresses)
    assert {"api.example.org", "cp2", "kubernetes.default.svc"} <= set(api.dns_names)


def test_etcd_believes_an_authority_of_its_own(tmp_path: Path) -> None:
    ensure(tmp_path, read(DESCRIPTION))

    own, etcd = tmp_path / "machines" / "cp1", parse((tmp_path / "etcd/ca.crt").read_bytes()).issuer
    for name in ("etcd-server", "etcd-peer", "apiserver-etcd-client"):
        assert parse((own / f"{name}.crt").read_bytes()).issuer == etcd
    assert set(parse((own / "etcd-peer.crt").read_bytes()).usages) == {SERVER, CLIENT}
    assert parse((own / "apiserver.crt").read_bytes()).issuer != etcd


def test_an_external_etcd_gets_nothing_from_us(tmp_path: Path) -> None:
    described = deepcopy(DESCRIPTION)
    for machine in described["machines"]:
        machine["roles"] = [role for role in machine["roles"] if role != "etcd"]

    ensure(tmp_path, read(described))

    assert not [name for name in files(tmp_path) if "etcd" in name]


def test_kubeconfigs_lead_to_the_server(tmp_path: Path) -> None:
    ensure(tmp_path, read(DESCRIPTION))

    document = yaml.safe_load((tmp_path / "machines/cp1/admin.conf").read_text())
    assert document["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:7443"


def test_the_second_time_changes_nothing(tmp_path: Path) -> None:
    ensure(tmp_path, read(DESCRIPTION))
    before = files(tmp_path)

    assert ensure(tmp_path, read(DESCRIPTION)) == []
    assert files(tmp_path) == before


def test_a_new_machine_changes_nothing_of_the_others(tmp_path: Path) -> None:
    ensure(tmp_path, read(DESCRIPTION))
    described = deepcopy(DESCRIPTION)
    described["machines"].append({"name": "n2", "addresses": ["192.0.2.4"], "roles": ["node"]})

    assert ensure(tmp_path, read(described)) == ["n2/kubelet", "n2/proxy", "n2/dns", "n2/proxy.conf", "n2/dns.conf"]


def test_what_ends_soon_is_issued_anew_with_its_kubeconfig(tmp_path: Path) -> None:
    ensure(tmp_path, read(DESCRIPTION))

    made = ensure(tmp_path, read(DESCRIPTION), datetime.now(UTC) + timedelta(days=340))

    assert {"n1/kubelet", "n1/proxy", "n1/proxy.conf", "cp1/etcd-peer"} <= set(made)
    assert not {"ca", "front-proxy-ca", "etcd/ca", "sa", "encryption-config"} & set(made)


def test_secrets_are_for_root_alone(tmp_path: Path) -> None:
    ensure(tmp_path / "pki", read(DESCRIPTION))

    secret = [file for file in (tmp_path / "pki").rglob("*") if file.suffix in (".key", ".conf", ".yaml")]
    assert secret
    assert {file.stat().st_mode & 0o777 for file in secret} == {0o600}
    assert {folder.stat().st_mode & 0o777 for folder in (tmp_path / "pki").rglob("*") if folder.is_dir()} == {0o700}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param({"machines": []}, "none has the role control-plane", id="nobody"),
        pytest.param({"machines": [*DESCRIPTION["machines"], DESCRIPTION["machines"][0]]}, "same name", id="twice"),
        pytest.param({"server": "http://127.0.0.1"}, "server: must be an https URL", id="plain"),
        pytest.param({"serviceCIDRs": ["10.96.0.1/12"]}, "serviceCIDRs: ", id="not-a-network"),
        pytest.param({"serviceCidrs": []}, "unknown field 'serviceCidrs'", id="unknown"),
        pytest.param({"machines": [{"name": "../x", "addresses": ["192.0.2.1"], "roles": ["node"]}]}, "is no name", id="path"),
        pytest.param({"machines": [{"name": "x", "addresses": ["192.0.2.1"], "roles": ["chef"]}]}, "must be some of", id="role"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(change: dict[str, Any], said: str) -> None:
    with pytest.raises(DescriptionError, match=said):
        read({**DESCRIPTION, **change})


def test_renewal_issues_everything_but_the_authorities(tmp_path: Path) -> None:
    cluster = read(DESCRIPTION)
    first = ensure(tmp_path, cluster)
    authorities = {name: (tmp_path / f"{name}.crt").read_bytes() for name in ("ca", "front-proxy-ca", "etcd/ca")}

    renewed = ensure(tmp_path, cluster, renew=True)

    assert renewed == [name for name in first if "/" in name and name != "etcd/ca"]
    assert {name: (tmp_path / f"{name}.crt").read_bytes() for name in authorities} == authorities
    assert ensure(tmp_path, cluster) == []
