"""The keys of a cluster: made once, kept, and made again when they no longer say the right thing."""

import contextlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bootstrap.pki import Identity, ensure_pki, leaves
from component import x509
from component.x509 import parse

IDENTITY = Identity(node_name="n1", node_ip="192.0.2.7", service_ip="10.96.0.1")


def test_the_first_time_makes_everything(tmp_path: Path) -> None:
    made = ensure_pki(tmp_path, IDENTITY)

    assert set(made) == {"ca", "front-proxy-ca", "sa", "tokens", *(leaf.name for leaf in leaves(IDENTITY))}
    api = parse((tmp_path / "apiserver.crt").read_bytes())
    assert {"192.0.2.7", "10.96.0.1", "127.0.0.1"} <= set(api.ip_addresses)
    assert "kubernetes.default.svc.cluster.local" in api.dns_names
    node = parse((tmp_path / "kubelet-client.crt").read_bytes())
    assert (node.common_name, node.organizations) == ("system:node:n1", ("system:nodes",))


def test_the_second_time_changes_nothing(tmp_path: Path) -> None:
    ensure_pki(tmp_path, IDENTITY)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    assert ensure_pki(tmp_path, IDENTITY) == []
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_new_address_renews_the_serving_certificates_and_keeps_the_rest(tmp_path: Path) -> None:
    ensure_pki(tmp_path, IDENTITY)

    assert ensure_pki(tmp_path, replace(IDENTITY, node_ip="192.0.2.8")) == ["apiserver", "kubelet"]


def test_certificates_near_their_end_are_renewed(tmp_path: Path) -> None:
    ensure_pki(tmp_path, IDENTITY)
    later = datetime.now(UTC) + timedelta(days=340)

    assert set(ensure_pki(tmp_path, IDENTITY, now=later)) == {leaf.name for leaf in leaves(IDENTITY)}


def test_keys_and_tokens_are_for_root_alone(tmp_path: Path) -> None:
    ensure_pki(tmp_path, IDENTITY)

    secret = [file for file in tmp_path.iterdir() if file.suffix == ".key" or file.name == "tokens.csv"]
    assert secret
    assert {file.stat().st_mode & 0o777 for file in secret} == {0o600}


def test_the_authorities_are_apart(tmp_path: Path) -> None:
    ensure_pki(tmp_path, IDENTITY)

    assert parse((tmp_path / "front-proxy-client.crt").read_bytes()).issuer != parse((tmp_path / "admin.crt").read_bytes()).issuer


@pytest.mark.parametrize("before", ["nothing", "all but the authority's key"])
@pytest.mark.parametrize("writes", [0, 1, 2, 5, 8, 21])
def test_killed_at_any_moment_the_next_run_makes_it_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int, before: str
) -> None:
    if before != "nothing":
        ensure_pki(tmp_path, IDENTITY)
        (tmp_path / "ca.key").unlink()
    left, write = [writes], x509.write_private

    def killed(path: Path, data: bytes, mode: int = 0o600) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        write(path, data, mode)

    with monkeypatch.context() as patch:
        patch.setattr(x509, "write_private", killed)
        with contextlib.suppress(KeyboardInterrupt):
            ensure_pki(tmp_path, IDENTITY)

    ensure_pki(tmp_path, IDENTITY)

    for leaf in leaves(IDENTITY):
        pair = x509.KeyPair.load(tmp_path / f"{leaf.name}.crt", tmp_path / f"{leaf.name}.key")
        assert x509.belongs(pair, (tmp_path / f"{leaf.authority}.crt").read_bytes()), leaf.name
    assert ensure_pki(tmp_path, IDENTITY) == []
