"""What `down` takes off the machine, and what it must leave alone."""

from pathlib import Path

import pytest

from cli.cluster import teardown
from component import mountinfo

MOUNTS = r"""
20 1 0:1 / / rw - ext4 /dev/a rw
30 20 0:2 / /data/kubelet/pods/1/volumes/secret rw - tmpfs tmpfs rw
31 20 0:3 / /data/containerd/state rw - tmpfs tmpfs rw
32 20 0:4 / /data2/not-ours rw - tmpfs tmpfs rw
33 20 0:5 / /data/with\040space rw - tmpfs tmpfs rw
""".strip()

NAT = """
*nat
:PREROUTING ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
:CNI-HOSTPORT-DNAT - [0:0]
:CNI-0123456789abcdef - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A PREROUTING -j KUBE-SERVICES
-A POSTROUTING -s 10.244.0.2/32 -m comment --comment "name: \\"n\\" -j CNI-trick" -j CNI-0123456789abcdef
-A CNI-0123456789abcdef ! -d 224.0.0.0/4 -j MASQUERADE
COMMIT
""".strip()


def test_mounts_below_a_folder_come_deepest_first_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mountinfo, "read", lambda within: list(mountinfo.parse(MOUNTS, within)))
    assert teardown.mounts_below(Path("/data")) == [
        "/data/kubelet/pods/1/volumes/secret",
        "/data/containerd/state",
        "/data/with space",
    ]


def test_cni_chains_go_with_the_jumps_to_them_and_no_other_rule() -> None:
    script, count = teardown.cni_cleanup(NAT.splitlines())

    assert count == 2
    lines = script.splitlines()
    assert [line for line in lines if line.startswith("-D")] == [
        "-D PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT",
        '-D POSTROUTING -s 10.244.0.2/32 -m comment --comment "name: \\"n\\" -j CNI-trick" -j CNI-0123456789abcdef',
    ]
    assert [line for line in lines if line.startswith("-X")] == ["-X CNI-HOSTPORT-DNAT", "-X CNI-0123456789abcdef"]
    assert "KUBE" not in script


def test_a_purge_never_crosses_a_mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kept").write_text("x")
    monkeypatch.setattr(teardown, "mounts_below", lambda folder: [f"{folder}/mounted"])

    with pytest.raises(RuntimeError, match="still mounted"):
        teardown.remove_tree(tmp_path)

    assert (tmp_path / "kept").exists()
