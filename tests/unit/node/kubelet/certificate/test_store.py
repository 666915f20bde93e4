"""The files of a kubelet's certificate: upstream's layout, and something usable after a kill at any step."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from component import x509
from component.x509 import CLIENT, KeyPair, Request
from node.kubelet.certificate.store import CertificateStore, split

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
CA = x509.new_ca("ca")


def pair(name: str = "one") -> KeyPair:
    return x509.issue(CA, Request(name, usages=(CLIENT,)))


def test_the_layout_is_upstreams(tmp_path: Path) -> None:
    store = CertificateStore(tmp_path / "pki", "kubelet-client")
    assert store.current() is None
    one = pair()
    store.update(one, NOW)
    assert os.readlink(store.path) == "kubelet-client-2026-11-30-12-00-00.pem"
    assert store.path == tmp_path / "pki" / "kubelet-client-current.pem"
    assert store.path.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "pki").stat().st_mode & 0o777 == 0o700
    found = store.current()
    assert found is not None
    assert found.certificate.strip() == one.certificate.strip()
    assert found.key.strip() == one.key.strip()


def test_an_update_replaces_and_old_files_go(tmp_path: Path) -> None:
    store = CertificateStore(tmp_path, "kubelet-client")
    last = pair()
    for number in range(6):
        last = pair(str(number))
        store.update(last, NOW + timedelta(seconds=number))
    store.update(last, NOW + timedelta(seconds=5))
    found = store.current()
    assert found is not None
    assert x509.parse(found.certificate).common_name == "5"
    assert len(list(tmp_path.iterdir())) == 4, "three files and the link"


@pytest.mark.parametrize("step", ["replace", "symlink"])
def test_a_kill_in_the_middle_leaves_the_old_one_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    store = CertificateStore(tmp_path, "kubelet-client")
    store.update(pair("old"), NOW)

    def killed(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if step == "symlink":
            patch.setattr(Path, "symlink_to", killed)
        else:
            real = os.replace
            patch.setattr(os, "replace", lambda a, b: killed() if str(b).endswith("current.pem") else real(a, b))
        with pytest.raises(KeyboardInterrupt):
            store.update(pair("new"), NOW + timedelta(seconds=1))
    found = store.current()
    assert found is not None
    assert x509.parse(found.certificate).common_name == "old"
    store.update(pair("new"), NOW + timedelta(seconds=2))
    found = store.current()
    assert found is not None
    assert x509.parse(found.certificate).common_name == "new"


def test_what_cannot_be_used_is_nothing(tmp_path: Path) -> None:
    store = CertificateStore(tmp_path, "kubelet-client")
    one, other = pair(), pair()
    with pytest.raises(ValueError, match="does not belong"):
        store.update(KeyPair(one.certificate, other.key), NOW)
    store.path.write_bytes(one.certificate + other.key)
    assert store.current() is None
    store.path.write_bytes(one.certificate)
    assert store.current() is None
    with pytest.raises(ValueError, match="needs a certificate and its key"):
        split(b"")
