"""`certs issue` and `image make` as ansible runs them: what they print tells whether something changed."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.__main__ import cli

FILE = """
server: https://192.0.2.1:6443
serviceCIDRs: [10.96.0.0/12]
machines:
  - {name: cp1, addresses: [192.0.2.1], roles: [control-plane, etcd]}
"""


def test_what_was_made_is_printed_and_nothing_the_second_time(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(FILE)
    arguments = ["certs", "issue", str(tmp_path / "cluster.yaml"), "--pki-dir", str(tmp_path / "pki")]

    first, second = (CliRunner().invoke(cli, arguments) for _ in range(2))

    assert {"ca", "etcd/ca", "cp1/apiserver", "cp1/admin.conf"} <= set(first.output.splitlines())
    assert (second.exit_code, second.output) == (0, "")


@pytest.mark.parametrize("text", ["machines: [", "machines: {}", "- 1"])
def test_a_bad_description_is_one_sentence(text: str, tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(text)

    done = CliRunner().invoke(cli, ["certs", "issue", str(tmp_path / "cluster.yaml"), "--pki-dir", str(tmp_path / "pki")])

    assert done.exit_code == 1
    assert done.output.startswith(f"Error: {tmp_path / 'cluster.yaml'}: ")
    assert not (tmp_path / "pki").exists()


def test_an_image_is_written_under_the_name_it_is_given(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["image", "make", "pause", str(tmp_path / "pause.tar"), "--reference", "localhost/pause:1"])

    assert done.output == "localhost/pause:1\n"
    assert b"localhost/pause:1" in (tmp_path / "pause.tar").read_bytes()
