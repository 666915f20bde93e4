"""Container logs as runtimes write them for CRI: ``<time> <stream> <F|P> <text>``. Pure; ``logs.py`` does the reading.

Whole chunks are turned by regular expressions that run in C, because ``kubectl logs`` of a big file should cost what
copying it costs. Only what needs a look at each line (timestamps, the beginning of ``since``) is done line by line.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

_LINE = re.compile(rb"([^ \n]+) (stdout|stderr) ([FP])(?::[^ \n]*)? ?([^\n]*)(\n?)")
# A full line loses its head, a partial one also its line end; lines that match nothing pass as they are.
_HEADS = re.compile(rb"(?m)^[^ \n]+ std(?:out|err) (?:F(?::[^ \n]*)? ?|P(?::[^ \n]*)? ?([^\n]*)(?:\n|\Z))")
# The same for chunks without partial lines, four times as fast: it starts at newlines, which C finds quickly.
_FULL_HEADS = re.compile(rb"\n[^ \n]+ std(?:out|err) F(?::[^ \n]*)? ?")
_NOT_STDOUT = re.compile(rb"(?m)^[^ \n]+ stderr [^\n]*(?:\n|\Z)")
_NOT_STDERR = re.compile(rb"(?m)^[^ \n]+ stdout [^\n]*(?:\n|\Z)")


@dataclass(frozen=True, slots=True)
class Options:
    """``v1.PodLogOptions`` as the kubelet gets them. ``since`` is an absolute time; ``stream`` is All, Stdout or Stderr."""

    follow: bool = False
    tail: int | None = None
    since: datetime | None = None
    timestamps: bool = False
    limit: int | None = None
    stream: str = "All"


class Converter:
    """Turns complete log lines, in order, into what the client asked to see. One per request: it has state."""

    def __init__(self, options: Options) -> None:
        self._since = nanoseconds(options.since) if options.since else None
        self._timestamps = options.timestamps
        self._drop = {"Stdout": _NOT_STDOUT, "Stderr": _NOT_STDERR}.get(options.stream)
        self._remaining = options.limit
        self._continues = False

    @property
    def full(self) -> bool:
        """Whether ``limitBytes`` is used up."""
        return self._remaining is not None and self._remaining <= 0

    def convert(self, lines: bytes) -> bytes:
        if self._drop is not None:
            lines = self._drop.sub(b"", lines)
        if self._since is not None:
            lines = self._after_since(lines)
        out = self._stamped(lines) if self._timestamps else _plain(lines)
        if self._remaining is not None:
            out = out[: self._remaining]
            self._remaining -= len(out)
        return out

    def _after_since(self, lines: bytes) -> bytes:
        """Drop what is older. The clock of a log only goes forward, so after the first match nothing is looked at."""
        assert self._since is not None
        for match in _LINE.finditer(lines):
            when = parse_timestamp(match[1])
            if when is None or when >= self._since:
                self._since = None
                return lines[match.start() :]
        return b""

    def _stamped(self, lines: bytes) -> bytes:
        parts: list[bytes] = []
        for match in _LINE.finditer(lines):
            stamp, _, tag, text, end = match.groups()
            if not self._continues:
                parts += (fixed_timestamp(stamp), b" ")
            self._continues = tag == b"P"
            parts.append(text if self._continues else text + end)
        return b"".join(parts)


def _plain(lines: bytes) -> bytes:
    if b" P" in lines:  # perhaps in the text alone, which the general expression gets right as well
        return _HEADS.sub(rb"\1", lines)
    return _FULL_HEADS.sub(b"\n", b"\n" + lines)[1:]


def nanoseconds(when: datetime) -> int:
    delta = when - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86400 + delta.seconds) * 10**9 + delta.microseconds * 1000


def parse_timestamp(text: bytes) -> int | None:
    """Nanoseconds since the epoch of an RFC 3339 time; None for anything else."""
    base, dot, rest = text.decode("ascii", "replace").partition(".")
    digits = re.match(r"\d*", rest) if dot else None
    zone = rest[digits.end() :] if digits else ""
    try:
        when = datetime.fromisoformat(base + zone)
    except ValueError:
        return None
    if when.tzinfo is None:
        return None
    fraction = int((digits[0] if digits else "").ljust(9, "0")[:9] or 0)
    return nanoseconds(when) + fraction


def fixed_timestamp(text: bytes) -> bytes:
    """The same time with nine digits of fraction, as upstream prints it; runtimes drop trailing zeros."""
    base, dot, rest = text.partition(b".")
    if not dot:
        cut = 19  # "2026-11-30T11:29:38"
        return base[:cut] + b".000000000" + base[cut:]
    digits = len(rest) - len(rest.lstrip(b"0123456789"))
    return base + b"." + rest[:digits].ljust(9, b"0")[:9] + rest[digits:]
