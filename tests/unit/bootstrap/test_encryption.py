"""The encryption key of a new cluster: one that the API server takes, private, and never made twice."""

from pathlib import Path

from bootstrap.encryption import ensure_encryption_config
from controlplane.apiserver.storage.encryption.config import load


def test_a_new_cluster_gets_a_key_of_its_own(tmp_path: Path) -> None:
    one, other = tmp_path / "one.yaml", tmp_path / "other.yaml"
    assert ensure_encryption_config(one)
    assert ensure_encryption_config(other)
    assert one.stat().st_mode & 0o777 == 0o600
    (rule,) = load(one)
    assert rule.resources == ("secrets",)
    assert [provider.kind for provider in rule.providers] == ["secretbox", "identity"]
    assert rule.providers[0].keys != load(other)[0].providers[0].keys


def test_a_key_that_exists_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "one.yaml"
    ensure_encryption_config(path)
    before = path.read_bytes()
    assert not ensure_encryption_config(path)
    assert path.read_bytes() == before
