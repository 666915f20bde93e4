"""containerd's configuration: valid TOML for both configuration versions, nothing shared with the machine's own."""

import tomllib
from pathlib import Path

import pytest

from bootstrap import containerd


def _layout(tmp_path: Path) -> containerd.Layout:
    return containerd.layout(tmp_path, cni_bin_dir=Path("/usr/lib/cni"))


def test_version_1_gets_the_old_plugin_names(tmp_path: Path) -> None:
    config = tomllib.loads(containerd.write_config(_layout(tmp_path), (1, 6), restrict_oom=True).read_text())
    cri = config["plugins"]["io.containerd.grpc.v1.cri"]
    assert config["version"] == 2
    assert cri["restrict_oom_score_adj"] is True
    assert cri["cni"]["conf_dir"] == str(tmp_path / "cni")
    assert cri["sandbox_image"] == "registry.k8s.io/pause:3.10"
    assert config["state"].startswith(str(tmp_path))


def test_version_2_gets_the_new_plugin_names(tmp_path: Path) -> None:
    config = tomllib.loads(
        containerd.write_config(_layout(tmp_path), (2, 1), restrict_oom=False, systemd_cgroup=True).read_text()
    )
    runtime = config["plugins"]["io.containerd.cri.v1.runtime"]
    assert config["version"] == 3
    assert runtime["containerd"]["runtimes"]["runc"]["options"]["SystemdCgroup"] is True
    assert config["plugins"]["io.containerd.cri.v1.images"]["pinned_images"]["sandbox"] == "registry.k8s.io/pause:3.10"


@pytest.mark.parametrize(
    ("version", "name", "value"),
    [((1, 7), "bin_dir", "/usr/lib/cni"), ((2, 0), "bin_dir", "/usr/lib/cni"), ((2, 1), "bin_dirs", ["/usr/lib/cni"])],
    ids=["1.7", "2.0", "2.1"],
)
def test_cni_plugins_are_named_as_the_version_does(tmp_path: Path, version: tuple[int, int], name: str, value: object) -> None:
    plugins = tomllib.loads(containerd.write_config(_layout(tmp_path), version, restrict_oom=True).read_text())["plugins"]
    cri = plugins.get("io.containerd.cri.v1.runtime") or plugins["io.containerd.grpc.v1.cri"]
    assert {key: found for key, found in cri["cni"].items() if key.startswith("bin_dir")} == {name: value}


@pytest.mark.parametrize(("version", "knows"), [((1, 6), False), ((1, 7), True), ((2, 1), True)])
def test_devices_by_name_are_found_where_drivers_write(tmp_path: Path, version: tuple[int, int], knows: bool) -> None:
    where = _layout(tmp_path)
    plugins = tomllib.loads(containerd.write_config(where, version, restrict_oom=True).read_text())["plugins"]
    cri = plugins.get("io.containerd.cri.v1.runtime") or plugins["io.containerd.grpc.v1.cri"]
    assert cri.get("enable_cdi", False) is knows
    assert cri.get("cdi_spec_dirs") == (["/etc/cdi", "/var/run/cdi", str(where.cdi_dir)] if knows else None)


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ("containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u3", (1, 6)),
        ("containerd github.com/containerd/containerd/v2 v2.1.4 75cb2b7193e4e490e9fbdc236c0e811ccaba3376", (2, 1)),
        ("containerd containerd.io 1.7.27 05044ec0a9a75232cad458027ca83437aae3f4da", (1, 7)),
    ],
    ids=["debian 1.6", "upstream 2.1", "docker's 1.7"],
)
def test_the_version_is_read(output: str, version: tuple[int, int]) -> None:
    assert containerd.minor_version(output) == version


def test_a_socket_path_that_cannot_work_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="too long for a unix socket"):
        containerd.write_config(_layout(tmp_path / ("x" * 100)), (1, 6))
