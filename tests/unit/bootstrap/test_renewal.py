"""Renewal keeps what certificates say, changes their keys, and refuses what it cannot do before it writes anything."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from bootstrap.etcd_pki import ensure_etcd_pki
from bootstrap.kubeconfigs import write_kubeconfigs
from bootstrap.pki import Identity, ensure_pki
from bootstrap.renewal import Place, RenewalError, expirations, places, renew
from cli.__main__ import cli
from cli.certs import residual
from client.kubeconfig import load
from component.x509 import KeyPair, belongs, parse

IDENTITY = Identity("node-1", "192.0.2.10", "10.96.0.1", extra_names=("api.example.com",))
THEN = datetime.now(UTC) - timedelta(days=200)


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """A data directory whose certificates are 200 days old."""
    for folder in ("pki", "kubeconfigs"):
        (tmp_path / folder).mkdir()
    ensure_pki(tmp_path / "pki", IDENTITY, THEN)
    write_kubeconfigs(tmp_path / "pki", tmp_path / "kubeconfigs", tmp_path / "admin.kubeconfig", IDENTITY)
    return tmp_path


def known(cluster: Path) -> list[Place]:
    return places(cluster / "pki", cluster / "kubeconfigs", cluster / "admin.kubeconfig")


def place(cluster: Path, name: str) -> Place:
    return next(one for one in known(cluster) if one.name == name)


def run(cluster: Path, *arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["certs", *arguments, "--data-dir", str(cluster)])
    return done.exit_code, done.output


def test_what_a_certificate_says_stays_and_its_key_changes(cluster: Path) -> None:
    pki = cluster / "pki"
    old = parse((pki / "apiserver.crt").read_bytes())
    key = (pki / "apiserver.key").read_bytes()
    renew(pki, place(cluster, "apiserver"))
    new = parse((pki / "apiserver.crt").read_bytes())
    for attribute in ("common_name", "organizations", "dns_names", "ip_addresses", "usages", "issuer"):
        assert getattr(new, attribute) == getattr(old, attribute)
    assert "api.example.com" in new.dns_names
    assert new.not_after - old.not_after > timedelta(days=199)
    assert (pki / "apiserver.key").read_bytes() != key
    assert belongs(KeyPair.load(pki / "apiserver.crt", pki / "apiserver.key"), (pki / "ca.crt").read_bytes())
    assert (pki / "apiserver.key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["admin", "kubelet-client", "scheduler"])
def test_kubeconfigs_get_the_new_certificate_and_keep_the_rest(cluster: Path, name: str) -> None:
    (path,) = place(cluster, name).kubeconfigs
    before = yaml.safe_load(path.read_bytes())
    renew(cluster / "pki", place(cluster, name))
    after = yaml.safe_load(path.read_bytes())
    config = load(path)
    assert config.certificate_data == (cluster / "pki" / f"{name}.crt").read_bytes()
    assert config.key_data == (cluster / "pki" / f"{name}.key").read_bytes()
    for document in (before, after):
        document["users"][0]["user"].clear()
    assert before == after
    assert path.stat().st_mode & 0o777 == 0o600


def test_everything_that_is_made_can_be_renewed(cluster: Path) -> None:
    made = {path.stem for path in (cluster / "pki").glob("*.crt")} - {"ca", "front-proxy-ca"}
    assert made == {one.name for one in known(cluster)}
    code, output = run(cluster, "renew", "all")
    assert code == 0, output
    assert {line.split()[1] for line in output.splitlines()} == made
    certificates, authorities = expirations(cluster / "pki", known(cluster))
    assert all(row.certificate and row.certificate.not_after > THEN + timedelta(days=500) for row in certificates)
    assert [row.name for row in authorities] == ["ca", "front-proxy-ca"]


def test_those_of_a_private_etcd_are_among_them_by_kubeadms_names(cluster: Path) -> None:
    ensure_etcd_pki(cluster / "pki" / "etcd", THEN)
    code, output = run(cluster, "check-expiration", "-o", "json")
    shown = json.loads(output)
    rows = {row["name"]: row.get("caName") for row in shown["certificates"]}
    theirs = {"etcd-server", "etcd-peer", "apiserver-etcd-client"}
    assert {name for name, authority in rows.items() if authority == "etcd-ca"} == theirs
    assert [row["name"] for row in shown["certificateAuthorities"]] == ["ca", "front-proxy-ca", "etcd-ca"]
    assert (code, [row["name"] for row in shown["certificates"] if row["missing"]]) == (0, [])
    before = {path.name: path.read_bytes() for path in (cluster / "pki" / "etcd").glob("*.crt")}
    assert run(cluster, "renew", "all")[0] == 0
    after = {path.name: path.read_bytes() for path in (cluster / "pki" / "etcd").glob("*.crt")}
    assert {name for name in after if after[name] != before[name]} == {"server.crt", "peer.crt", "apiserver-etcd-client.crt"}
    assert ensure_etcd_pki(cluster / "pki" / "etcd") == [], "and `up` finds them good"
    assert "is an authority" in run(cluster, "renew", "etcd-ca")[1]


def test_the_table_is_kubeadms(cluster: Path) -> None:
    (cluster / "pki" / "proxy.crt").unlink()
    code, output = run(cluster, "check-expiration")
    assert code == 0
    lines = output.splitlines()
    head = ["CERTIFICATE", "EXPIRES", "RESIDUAL TIME", "CERTIFICATE AUTHORITY", "EXTERNALLY MANAGED"]
    assert [part.strip() for part in lines[0].split("   ") if part.strip()] == head
    rows = {line.split()[0]: line for line in lines[1:] if line}
    end = parse((cluster / "pki" / "apiserver.crt").read_bytes()).not_after
    assert f"{end:%b %d, %Y %H:%M} UTC   164d            ca                      no" in rows["apiserver"]
    assert "front-proxy-ca" in rows["front-proxy-client"]
    assert "!MISSING! proxy" in output
    assert rows["ca"].endswith("9y              no")


def test_an_external_authority_is_shown_and_refused(cluster: Path) -> None:
    (cluster / "pki" / "ca.key").unlink()
    before = (cluster / "pki" / "apiserver.crt").read_bytes()
    assert run(cluster, "renew", "apiserver") == (1, "Error: Detected external ca, apiserver can't be renewed\n")
    code, output = run(cluster, "renew", "all")
    assert code == 0
    assert "Detected external ca, apiserver can't be renewed" in output
    assert "certificate front-proxy-client renewed" in output
    assert (cluster / "pki" / "apiserver.crt").read_bytes() == before
    assert run(cluster, "check-expiration")[1].count(" yes") == 11


@pytest.mark.parametrize(
    ("name", "words"),
    [("ca", "is an authority"), ("nope", "there is no certificate 'nope'; known are all, admin,")],
)
def test_what_cannot_be_renewed_is_refused_by_name(cluster: Path, name: str, words: str) -> None:
    code, output = run(cluster, "renew", name)
    assert code == 1
    assert words in output


def test_a_folder_without_a_cluster_is_named(tmp_path: Path) -> None:
    assert run(tmp_path, "check-expiration") == (1, f"Error: no cluster was ever started in {tmp_path}\n")


def test_nothing_is_written_when_a_kubeconfig_cannot_be_used(cluster: Path) -> None:
    (cluster / "admin.kubeconfig").write_text("[]")
    before = (cluster / "pki" / "admin.crt").read_bytes()
    with pytest.raises(RenewalError, match="not a kubeconfig"):
        renew(cluster / "pki", place(cluster, "admin"))
    assert (cluster / "pki" / "admin.crt").read_bytes() == before
    os.replace(cluster / "pki" / "front-proxy-ca.key", cluster / "pki" / "ca.key")
    with pytest.raises(RenewalError, match=r"ca.key is not the key of ca.crt"):
        renew(cluster / "pki", place(cluster, "apiserver"))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "<invalid>"), (0, "0s"), (59, "59s"), (3599, "59m"), (86399, "23h"), (31535999, "364d"), (9.9 * 31536000, "9y")],
)
def test_durations_are_shortened_as_upstream_does(seconds: float, text: str) -> None:
    assert residual(seconds) == text
