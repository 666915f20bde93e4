"""Lines of mountinfo as proc(5) has them, with escapes."""

import pytest

from component import mountinfo
from component.mountinfo import Mount

MOUNTINFO = r"""
22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw
30 22 0:25 / /pods/u1/volumes/a rw - tmpfs tmpfs rw
31 22 0:26 / /pods/u10/volumes/a rw - tmpfs tmpfs rw
32 22 8:1 /x /pods/u1/volumes/with\040space rw master:2 - ext4 /dev/sda1 rw
33 30 8:1 /y /pods/u1 rw - ext4 /dev/sda1 rw
""".strip()


@pytest.mark.parametrize(
    ("within", "expected"),
    [
        ("/pods/u1", ["/pods/u1/volumes/a", "/pods/u1/volumes/with space", "/pods/u1"]),
        ("/pods/u1/volumes/with space", ["/pods/u1/volumes/with space"]),
        ("/pods/u2", []),
        ("/", ["/", "/pods/u1/volumes/a", "/pods/u10/volumes/a", "/pods/u1/volumes/with space", "/pods/u1"]),
    ],
)
def test_mounts_at_or_below_a_path(within: str, expected: list[str]) -> None:
    assert [mount.point for mount in mountinfo.parse(MOUNTINFO, within)] == expected


def test_what_is_mounted_is_told() -> None:
    assert list(mountinfo.parse(MOUNTINFO, "/pods/u1/volumes/with space")) == [
        Mount("/pods/u1/volumes/with space", "ext4", "8:1")
    ]


def test_the_kernels_own_file_is_read() -> None:
    assert any(mount.point == "/proc" and mount.kind == "proc" for mount in mountinfo.read())
