"""What `up` finds out about the machine before it starts anything: each finding names the cause and the mend."""

import errno
import os
import shutil
import socket
import threading
from dataclasses import replace
from pathlib import Path

import click
import pytest

from cli import __main__ as entry
from cli.cluster import preflight
from cli.cluster.settings import Settings

FREE = Settings(
    node_name="n1",
    node_ip="127.0.0.1",
    bind_address="127.0.0.1",
    **dict.fromkeys(("secure_port", "kubelet_port", "kubelet_healthz_port", "controller_manager_port"), 0),
    **dict.fromkeys(("scheduler_port", "proxy_healthz_port", "proxy_metrics_port", "dns_port", "dns_metrics_port"), 0),
)


@pytest.fixture(autouse=True)
def equipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "PROGRAMS", {})
    monkeypatch.setattr(preflight, "FILES", {})


def check(settings: Settings, folder: Path, *, runs_already: bool = False) -> None:
    preflight.check(settings, folder, own_containerd=True, runs_already=runs_already)


def test_a_machine_that_is_ready_passes(tmp_path: Path) -> None:
    check(FREE, tmp_path)


def test_a_taken_port_is_named_with_its_flag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "PATIENCE", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(click.ClickException, match=rf"port {port} is taken.*--kubelet-port"):
            check(replace(FREE, kubelet_port=port), tmp_path)
        check(replace(FREE, kubelet_port=port), tmp_path, runs_already=True)


def test_a_port_of_who_is_just_dying_is_waited_for(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        threading.Timer(0.3, taken.close).start()
        check(replace(FREE, kubelet_port=taken.getsockname()[1]), tmp_path)


@pytest.mark.parametrize(("field", "flag"), [("node_ip", "--node-ip"), ("bind_address", "--bind-address")])
def test_an_address_that_is_not_ours_is_named_with_its_flag(tmp_path: Path, field: str, flag: str) -> None:
    with pytest.raises(click.ClickException, match=rf"192\.0\.2\.77 is not an address of this machine.*{flag}"):
        check(replace(FREE, **{field: "192.0.2.77"}), tmp_path)


def test_a_full_disk_is_found_before_it_fills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1, 1, 5 << 20))  # type: ignore[attr-defined]
    with pytest.raises(click.ClickException, match=r"has 5 MiB left and needs 200: free some .*--data-dir"):
        check(FREE, tmp_path)


def test_missing_programs_come_with_their_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "PROGRAMS", {"no-such-program": "its-package"})
    monkeypatch.setattr(preflight, "FILES", {"/no/such/file": "other-package"})
    with pytest.raises(click.ClickException, match=r"(?s)apt-get install its-package.*apt-get install other-package"):
        check(FREE, tmp_path)


def test_root_is_asked_for_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(click.ClickException, match="needs root"):
        preflight.require_root()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_what_the_machine_refuses_is_told_in_a_sentence(
    code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(**_: object) -> None:
        raise OSError(code, os.strerror(code), "/data/pki/ca.key")

    monkeypatch.setattr(entry.cli, "main", refuse)
    with pytest.raises(SystemExit) as left:
        entry.main([])
    assert left.value.code == 1
    assert capsys.readouterr().err == f"Error: /data/pki/ca.key: {os.strerror(code)}; {entry.MENDS[code]}\n"


def test_other_errors_keep_their_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise ConnectionResetError(errno.ECONNRESET, "reset")

    monkeypatch.setattr(entry.cli, "main", refuse)
    with pytest.raises(ConnectionResetError):
        entry.main([])
