"""The snapshot file: gzip over lines of JSON, so that ``zcat`` and ``jq`` read it; written whole or not at all.

First line: what it is, of which revision, from where. Then a line for each key, in key order: its value as text, or in base64
when it is not UTF-8 (encrypted values), the revisions of its creation and last change, and when it expires. Last line: how
many keys, and the SHA-256 of all lines before it: a file without it was cut off.
"""

import base64
import gzip
import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from component.errors import OperatorError

FORMAT = "pybernetes-snapshot"
VERSION = 1
MAX_LINE = 64 << 20  # bytes; no store takes a value that large
_LEVEL = 6


class SnapshotError(OperatorError):
    """The file cannot be used; the text says why."""


@dataclass(frozen=True, slots=True)
class Header:
    """``revision`` is that of the store when it was read; ``created`` is RFC 3339; ``source`` names the kind of store."""

    revision: int
    created: str
    source: str


@dataclass(frozen=True, slots=True)
class Item:
    """One key. ``expires`` is in seconds since 1970; None for keys that stay."""

    key: str
    value: bytes
    create_revision: int
    mod_revision: int
    expires: float | None = None


class _Summed:
    """A stream that adds up what goes through it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self.sum, self.keys = stream, hashlib.sha256(), 0

    def write(self, line: bytes) -> None:
        self.sum.update(line)
        self._stream.write(line)


class Writer:
    """See :func:`writing`."""

    def __init__(self, stream: BinaryIO, header: Header) -> None:
        self._out = _Summed(stream)
        self._out.write(
            _line(
                {
                    "format": FORMAT,
                    "version": VERSION,
                    "revision": header.revision,
                    "created": header.created,
                    "source": header.source,
                }
            )
        )

    def add(self, items: Iterable[Item]) -> None:
        for item in items:
            self._out.write(_line(_record(item)))
            self._out.keys += 1

    @property
    def keys(self) -> int:
        return self._out.keys

    def finish(self, stream: BinaryIO) -> None:
        stream.write(_line({"keys": self._out.keys, "sha256": self._out.sum.hexdigest()}))


@contextmanager
def writing(path: Path, header: Header) -> Iterator[Writer]:
    """Write a new file; it has its name only when it is complete and on the disk. Raises OSError, SnapshotError if it exists."""
    if path.exists():
        raise SnapshotError(f"{path} exists; choose another name")
    descriptor, partial = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # 0600: it may hold secrets
    try:
        with os.fdopen(descriptor, "wb") as file:
            with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=_LEVEL, filename="", mtime=0) as stream:
                writer = Writer(stream, header)  # type: ignore[arg-type]  # a GzipFile writes bytes
                yield writer
                writer.finish(stream)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
        os.link(partial, path)  # unlike a rename, it does not replace what somebody else made meanwhile
        _sync_folder(path.parent)
    except FileExistsError:
        raise SnapshotError(f"{path} exists; choose another name") from None
    finally:
        with suppress(FileNotFoundError):
            os.unlink(partial)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def header_of(path: Path) -> Header:
    """What the first line says. Raises SnapshotError."""
    with _lines(path) as lines:
        return _header(path, next(lines, b""))


def read(path: Path, batch: int = 500) -> Iterator[list[Item]]:
    """Its keys, in lists. Raises SnapshotError at the end when the sum is wrong: verify first, then use."""
    with _lines(path) as lines:
        first = next(lines, b"")
        _header(path, first)
        sum_, keys = hashlib.sha256(first), 0
        items: list[Item] = []
        for line in lines:
            record = _parsed(path, line)
            if "sha256" in record:
                if record["sha256"] != sum_.hexdigest() or record["keys"] != keys:
                    raise SnapshotError(f"{path}: the checksum is wrong; the file has been changed or damaged")
                if next(lines, None) is not None:
                    raise SnapshotError(f"{path}: there is something after the checksum")
                yield items
                return
            sum_.update(line)
            keys += 1
            items.append(_item(path, record))
            if len(items) == batch:
                yield items
                items = []
        raise SnapshotError(f"{path}: the file has been cut off after {keys} keys")


@contextmanager
def _lines(path: Path) -> Iterator[Iterator[bytes]]:
    try:
        with gzip.open(path, "rb") as stream:
            yield _bounded(path, stream)
    except (gzip.BadGzipFile, EOFError) as error:
        raise SnapshotError(f"{path}: not a snapshot, or cut off ({error})") from None


def _bounded(path: Path, stream: Any) -> Iterator[bytes]:
    while line := stream.readline(MAX_LINE + 1):
        if len(line) > MAX_LINE:
            raise SnapshotError(f"{path}: a line is longer than {MAX_LINE} bytes")
        yield line


def _header(path: Path, line: bytes) -> Header:
    record = _parsed(path, line) if line else {}
    if record.get("format") != FORMAT:
        raise SnapshotError(f"{path}: not a snapshot of this program")
    if record.get("version") != VERSION:
        raise SnapshotError(f"{path}: a snapshot of version {record.get('version')}; this program reads version {VERSION}")
    return Header(int(record["revision"]), str(record["created"]), str(record["source"]))


def _parsed(path: Path, line: bytes) -> dict[str, Any]:
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise SnapshotError(f"{path}: a line cannot be read ({error})") from None
    if not isinstance(record, dict):
        raise SnapshotError(f"{path}: a line is no record")
    return record


def _record(item: Item) -> dict[str, Any]:
    record: dict[str, Any] = {"key": item.key, "created": item.create_revision, "modified": item.mod_revision}
    if item.expires is not None:
        record["expires"] = item.expires
    try:
        record["value"] = item.value.decode()
    except UnicodeDecodeError:
        record["base64"] = base64.b64encode(item.value).decode()
    return record


def _item(path: Path, record: dict[str, Any]) -> Item:
    try:
        value = base64.b64decode(record["base64"]) if "base64" in record else record["value"].encode()
        return Item(record["key"], value, record["created"], record["modified"], record.get("expires"))
    except (KeyError, ValueError, AttributeError) as error:
        raise SnapshotError(f"{path}: a record cannot be understood ({error!r})") from None


def _line(record: dict[str, Any]) -> bytes:
    return orjson.dumps(record) + b"\n"
