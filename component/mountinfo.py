"""What is mounted where, as ``/proc/self/mountinfo`` says it (proc(5)). Used by the kubelet's volumes and by `down`."""

import re
from collections.abc import Iterator
from typing import NamedTuple

_ESCAPED = re.compile(r"\\([0-7]{3})")
_FILE = "/proc/self/mountinfo"


class Mount(NamedTuple):
    """One line. ``device`` is major:minor of what is mounted, ``kind`` the file system's type."""

    point: str
    kind: str
    device: str


def read(within: str = "/") -> list[Mount]:
    """Mounts at or below the real path ``within``, in mount order: what was mounted over twice stands twice. Blocks."""
    with open(_FILE, encoding="utf-8", errors="surrogateescape") as file:
        return list(parse(file.read(), within))


def parse(text: str, within: str = "/") -> Iterator[Mount]:
    """The same from a text.

    A node with a hundred pods has a thousand lines here, so those that cannot be meant are passed over unparsed.
    """
    inside = within.rstrip("/") + "/"
    plain = not set(within) & set(" \t\n\\")  # other paths are escaped in the text
    for line in text.splitlines():
        if not line or (plain and within not in line):
            continue
        before, _, after = line.partition(" - ")
        fields = before.split(" ", 5)
        point = _ESCAPED.sub(lambda match: chr(int(match[1], 8)), fields[4])
        if point == within or point.startswith(inside):
            yield Mount(point, after.split(" ", 1)[0], fields[2])
