"""What a container runtime of somebody else's says of itself, in the words of several versions."""

from pathlib import Path

import click
import pytest

from cli.cluster.external import socket_path
from cri.facts import Facts, parse


@pytest.mark.parametrize(
    ("config", "facts"),
    [
        (
            '{"cni": {"binDir": "/opt/cni/bin", "confDir": "/etc/cni/net.d"}, "sandboxImage": "registry.k8s.io/pause:3.6"}',
            Facts("/etc/cni/net.d", "registry.k8s.io/pause:3.6"),
        ),
        (
            '{"cni": {"confDir": "/etc/cni/net.d"}, "pinnedImages": {"sandbox": "registry.k8s.io/pause:3.10"}}',
            Facts("/etc/cni/net.d", "registry.k8s.io/pause:3.10"),
        ),
        (
            '{"containerd": {"defaultRuntimeName": "runc", "runtimes": {"runc": {"options": {"SystemdCgroup": true}}}}}',
            Facts(systemd_cgroup=True),
        ),
        ('{"cni": null}', Facts()),
        ("[]", Facts()),
        ("no JSON", Facts()),
        ("", Facts()),
    ],
)
def test_facts(config: str, facts: Facts) -> None:
    assert parse(config) == facts


@pytest.mark.parametrize("endpoint", ["/run/containerd.sock", "tcp://1.2.3.4:5", "unix://relative"])
def test_only_sockets_are_understood(endpoint: str) -> None:
    with pytest.raises(click.ClickException, match="write a socket, such as unix:///"):
        socket_path(endpoint)


def test_a_file_is_no_runtime(tmp_path: Path) -> None:
    with pytest.raises(click.ClickException, match="no container runtime listens there"):
        socket_path(f"unix://{tmp_path}")
