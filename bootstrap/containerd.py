"""The private containerd of a cluster under one data directory: its configuration and how it is started.

``cli up`` and the tests write the file with :func:`write_config` and start :func:`command`. Everything it owns lies
below ``Layout.root`` and ``Layout.state``; it shares nothing with a containerd that is already on the machine.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bootstrap.images import PAUSE_REFERENCE

_MAX_SOCKET_PATH = 107  # sun_path, minus its final zero
_CDI_FOLDERS = ("/etc/cdi", "/var/run/cdi")
_CNI_FOLDERS = ("/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni")


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths of one containerd. ``state`` holds sockets and network namespaces, so it should be short and local."""

    root: Path
    state: Path
    cni_conf_dir: Path
    cni_bin_dir: Path
    sandbox_image: str = PAUSE_REFERENCE
    registry_config: Path | None = None

    @property
    def socket(self) -> Path:
        return self.state / "containerd.sock"

    @property
    def config(self) -> Path:
        return self.root / "config.toml"

    @property
    def cdi_dir(self) -> Path:
        """Where a driver of this cluster alone may describe its devices."""
        return self.root / "cdi"

    @property
    def endpoint(self) -> str:
        return f"unix://{self.socket}"


def layout(data_dir: Path, **changes: Any) -> Layout:
    """The usual places below a data directory."""
    values: dict[str, Any] = {
        "root": data_dir / "root",
        "state": data_dir / "state",
        "cni_conf_dir": data_dir / "cni",
        "cni_bin_dir": find_cni_plugins(),
    }
    return Layout(**{**values, **changes})


def find_cni_plugins() -> Path:
    """The folder with the standard CNI plugins, wherever the distribution puts it."""
    for folder in _CNI_FOLDERS:
        if Path(folder, "bridge").exists():
            return Path(folder)
    searched = ", ".join(_CNI_FOLDERS)
    raise FileNotFoundError(f"no CNI plugins in {searched}: apt-get install containernetworking-plugins")


def minor_version(version_output: str) -> tuple[int, int]:
    """Major and minor version from ``containerd --version``; raises ValueError if it says none."""
    match = re.search(r"\s[vV]?(\d+)\.(\d+)", version_output)
    if match is None:
        raise ValueError(f"cannot read containerd's version from {version_output!r}")
    return int(match[1]), int(match[2])


def can_lower_oom_score() -> bool:
    """Whether this process has CAP_SYS_RESOURCE; without it every sandbox dies on a lower oom_score_adj."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> 24 & 1)
    return False


def write_config(
    where: Layout, version: tuple[int, int], *, restrict_oom: bool | None = None, systemd_cgroup: bool = False
) -> Path:
    """Write the configuration for containerd ``version`` (major, minor) and make its folders.

    ``restrict_oom`` defaults to what this process's capabilities call for.
    """
    if len(os.fsencode(where.socket)) > _MAX_SOCKET_PATH:
        raise ValueError(f"{where.socket} is too long for a unix socket ({_MAX_SOCKET_PATH} bytes): use a shorter data directory")
    for folder in (where.root, where.state, where.cni_conf_dir):
        folder.mkdir(parents=True, exist_ok=True, mode=0o711)
    restrict = not can_lower_oom_score() if restrict_oom is None else restrict_oom
    make = _version_2 if version < (2, 0) else _version_3
    settings = make(where, version, restrict, systemd_cgroup)
    text = render(settings)
    # A full disk must not stand in the way of `down`: what is there already is not written again.
    if not where.config.exists() or where.config.read_text() != text:
        temporary = where.config.with_suffix(".new")
        temporary.write_text(text)
        temporary.replace(where.config)
    return where.config


def command(where: Layout, containerd: str = "containerd", log_level: str = "warn") -> list[str]:
    """The arguments that start it in the foreground."""
    return [containerd, "--config", str(where.config), "--log-level", log_level]


def _common(where: Layout, version: int) -> dict[str, Any]:
    return {
        "version": version,
        "root": str(where.root),
        "state": str(where.state),
        "oom_score": 0,
        "grpc": {"address": str(where.socket), "max_recv_message_size": 16 << 20, "max_send_message_size": 16 << 20},
        "ttrpc": {"address": f"{where.socket}.ttrpc"},
    }


def _runc(where: Layout, systemd_cgroup: bool) -> dict[str, Any]:
    options = {"Root": str(where.state / "runc"), "SystemdCgroup": systemd_cgroup}
    return {"default_runtime_name": "runc", "runtimes": {"runc": {"runtime_type": "io.containerd.runc.v2", "options": options}}}


def _cri(where: Layout, version: tuple[int, int], restrict_oom: bool) -> dict[str, Any]:
    # 2.1 knows several folders and warns of the old name, which 2.3 has no more.
    plugins = {"bin_dirs": [str(where.cni_bin_dir)]} if version >= (2, 1) else {"bin_dir": str(where.cni_bin_dir)}
    # Devices by name, from 1.7 on (2.0 has it on by itself). The first two folders are where drivers write by default.
    cdi = {"enable_cdi": True, "cdi_spec_dirs": [*_CDI_FOLDERS, str(where.cdi_dir)]} if version >= (1, 7) else {}
    return {
        **cdi,
        "restrict_oom_score_adj": restrict_oom,
        "netns_mounts_under_state_dir": True,
        "tolerate_missing_hugetlb_controller": True,
        "enable_unprivileged_ports": True,
        "enable_unprivileged_icmp": True,
        "cni": {**plugins, "conf_dir": str(where.cni_conf_dir), "max_conf_num": 1},
    }


def _stream() -> dict[str, Any]:
    return {"stream_server_address": "127.0.0.1", "stream_server_port": "0"}


def _version_2(where: Layout, version: tuple[int, int], restrict_oom: bool, systemd_cgroup: bool) -> dict[str, Any]:
    cri = {
        **_cri(where, version, restrict_oom),
        **_stream(),
        "sandbox_image": where.sandbox_image,
        "containerd": _runc(where, systemd_cgroup),
    }
    if where.registry_config:
        cri["registry"] = {"config_path": str(where.registry_config)}
    plugins = {"io.containerd.grpc.v1.cri": cri, "io.containerd.internal.v1.opt": {"path": str(where.root / "opt")}}
    return {**_common(where, 2), "plugins": plugins}


def _version_3(where: Layout, version: tuple[int, int], restrict_oom: bool, systemd_cgroup: bool) -> dict[str, Any]:
    images: dict[str, Any] = {"pinned_images": {"sandbox": where.sandbox_image}}
    if where.registry_config:
        images["registry"] = {"config_path": str(where.registry_config)}
    plugins = {
        "io.containerd.cri.v1.runtime": {**_cri(where, version, restrict_oom), "containerd": _runc(where, systemd_cgroup)},
        "io.containerd.cri.v1.images": images,
        "io.containerd.grpc.v1.cri": _stream(),
        "io.containerd.internal.v1.opt": {"path": str(where.root / "opt")},
    }
    return {**_common(where, 3), "plugins": plugins}


def render(settings: Mapping[str, Any]) -> str:
    """TOML of nested mappings with strings, booleans, numbers and lists of them (all that containerd's configuration needs)."""
    return "\n".join(_table(settings, ())) + "\n"


def _table(settings: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    lines = [f"{key} = {_value(value)}" for key, value in settings.items() if not isinstance(value, Mapping)]
    for key, value in settings.items():
        if isinstance(value, Mapping):
            inner = (*path, key if re.fullmatch(r"[\w-]+", key) else json.dumps(key))
            lines += ["", f"[{'.'.join(inner)}]", *_table(value, inner)]
    return lines


def _value(value: Any) -> str:
    return json.dumps(value)  # JSON strings, booleans, integers and lists are TOML as they stand
