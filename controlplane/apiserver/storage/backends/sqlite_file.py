"""The SQLite file of one API server, as blocking calls. ``sqlite`` runs them on its threads, never on the loop.

One append-only table: each row is one version of one key. Its id is the revision shifted left by POSITION_BITS plus the
position in the transaction, so that revision order is row order. ``previous`` is the id of the version it replaced (0: none).
A whole group of transactions is written by as few statements as possible, because each statement gives up the
interpreter lock and may wait long to get it back from a busy event loop.
"""

import fcntl
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from controlplane.apiserver.storage.backends.ledger import prefix_end
from controlplane.apiserver.storage.interface import StorageUnavailableError
from controlplane.apiserver.storage.layout import ROOT, resource_prefix

POSITION_BITS = 12
MAX_OPERATIONS = 1 << POSITION_BITS
APPLICATION_ID = 0x70796265  # "pybe", in the file's header
SCHEMA_VERSION = 2  # 1 kept objects under /registry/<resource>.<group>/
CHECK_BELOW = 512 << 20  # bytes; a larger file is checked only after a crash of the machine is suspected, by hand

_SCHEMA = """
CREATE TABLE revisions (
  id INTEGER PRIMARY KEY, key TEXT NOT NULL, created INTEGER NOT NULL, previous INTEGER NOT NULL,
  expires REAL, value BLOB);
CREATE INDEX revisions_by_key ON revisions (key, id);
CREATE TABLE progress (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO progress VALUES ('compacted', 0), ('swept', 0), ('revision', 1);
"""
_ROWS_PER_STATEMENT = 64
_INSERTS = tuple(
    f"INSERT INTO revisions (id, key, created, previous, expires, value) VALUES {','.join(['(?,?,?,?,?,?)'] * rows)}"  # noqa: S608
    for rows in range(_ROWS_PER_STATEMENT + 1)
)

Row = tuple[int, str, int, int, float | None, bytes | None]
"""id, key, create revision, id of the previous version, when it expires, value (None: deleted)."""


class Loaded(NamedTuple):
    """What a backend must know before it starts."""

    revision: int
    compacted: int
    latest: list[tuple[str, int, int, float | None]]  # key, id, create revision, expires: of living keys


class StorageCorruptError(StorageUnavailableError):
    """The file is damaged; the message says how to get at its content."""


def first_id(revision: int) -> int:
    return revision << POSITION_BITS


class Lock:
    """Makes one process the owner of a database file."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.read(self._file, 64).decode(errors="replace").strip() or "unknown"
            os.close(self._file)
            raise StorageUnavailableError(
                f"{path}: the database is in use by process {owner}; stop that API server or choose another data directory"
            ) from None
        os.ftruncate(self._file, 0)
        os.write(self._file, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        os.close(self._file)


class Database:
    """One connection. A writing one makes the schema; reading ones follow."""

    def __init__(self, path: Path, *, synchronous: str = "FULL", read_only: bool = False, wipe: bool = False) -> None:
        self._path = path
        with translated(path):
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=100)
        try:
            with translated(path):
                if read_only:
                    self._connection.execute("PRAGMA query_only = 1")
                    self._connection.execute("PRAGMA cache_size = -1024")
                else:
                    self._prepare(synchronous, wipe)
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self, synchronous: str, wipe: bool) -> None:
        run = self._connection.execute
        run("PRAGMA auto_vacuum = INCREMENTAL")
        run("PRAGMA journal_mode = WAL")
        run(f"PRAGMA synchronous = {synchronous}")
        run(f"PRAGMA secure_delete = {'ON' if wipe else 'OFF'}")
        run("PRAGMA cache_size = -2048")
        run("PRAGMA journal_size_limit = 16777216")
        if run("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
            self._connection.executescript(
                f"BEGIN; {_SCHEMA} PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
            )
        owner, version = run("PRAGMA application_id").fetchone()[0], run("PRAGMA user_version").fetchone()[0]
        if owner != APPLICATION_ID:
            raise StorageUnavailableError(f"{self._path}: not a database of this program; choose another data directory")
        if version == 1:
            self._rename_keys()
        elif version != SCHEMA_VERSION:
            raise StorageUnavailableError(
                f"{self._path}: written by a version of this program with schema {version}, this one reads {SCHEMA_VERSION}"
            )

    def _rename_keys(self) -> None:
        """From schema 1: keys move to where upstream has them."""
        with self._transaction():
            run = self._connection.execute
            rest = f"substr(key, {len(ROOT) + 1})"
            found = [row[0] for row in run(f"SELECT DISTINCT substr({rest}, 1, instr({rest}, '/') - 1) FROM revisions")]  # noqa: S608
            for resource in found:
                plural, _, group = resource.partition(".")
                old, new = f"{ROOT}{resource}/", resource_prefix(group, plural)
                if old != new:
                    window = (new, len(old) + 1, old, prefix_end(old))
                    run("UPDATE revisions SET key = ? || substr(key, ?) WHERE key >= ? AND key < ?", window)
            run(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def check(self) -> None:
        """Look for damage. Raises StorageCorruptError with what can be done."""
        if self._path.stat().st_size > CHECK_BELOW:
            return
        with translated(self._path):
            found = [row[0] for row in self._connection.execute("PRAGMA quick_check(5)")]
        if found != ["ok"]:
            lines = [line for text in found for line in text.splitlines()]
            raise StorageCorruptError(_damaged(self._path, "; ".join(lines[:5])))

    def load(self) -> Loaded:
        with translated(self._path):
            progress = dict(self._connection.execute("SELECT name, value FROM progress"))
            latest: dict[str, tuple[str, int, int, float | None]] = {}
            last = 0
            rows = self._connection.execute("SELECT id, key, created, expires, value IS NULL FROM revisions ORDER BY id")
            for row_id, key, created, expires, deleted in rows:
                last = row_id
                if deleted:
                    latest.pop(key, None)
                else:
                    latest[key] = (key, row_id, created, expires)
            revision = max(last >> POSITION_BITS, progress["revision"])
            return Loaded(revision, progress["compacted"], list(latest.values()))

    def append(self, rows: Sequence[Row]) -> None:
        """Make all rows durable, or none."""
        with translated(self._path):
            if len(rows) <= _ROWS_PER_STATEMENT:  # one statement is a transaction of its own
                self._insert(rows)
                return
            with self._transaction():
                for at in range(0, len(rows), _ROWS_PER_STATEMENT):
                    self._insert(rows[at : at + _ROWS_PER_STATEMENT])

    def _insert(self, rows: Sequence[Row]) -> None:
        self._connection.execute(_INSERTS[len(rows)], [value for row in rows for value in row])

    def get(self, key: str, revision: int) -> tuple[int, int, bytes] | None:
        """Create revision, mod revision and value of the key at the revision."""
        sql = "SELECT created, id, value FROM revisions WHERE key = ? AND id < ? ORDER BY id DESC LIMIT 1"
        with translated(self._path):
            row = self._connection.execute(sql, (key, first_id(revision + 1))).fetchone()
        return (row[0], row[1] >> POSITION_BITS, row[2]) if row and row[2] is not None else None

    def range(self, start: str, end: str | None, revision: int, limit: int) -> list[tuple[str, bytes, int, int]]:
        """Key, value, create revision, mod revision of the keys from ``start`` up to ``end`` as of ``revision``."""
        with translated(self._path):
            rows = self._connection.execute(
                f"SELECT r.key, r.value, r.created, r.id >> {POSITION_BITS} {_AS_OF} ORDER BY r.key LIMIT ?",
                (start, end or _LAST, first_id(revision + 1), first_id(revision + 1), limit or -1),
            )
            return rows.fetchall()

    def count(self, start: str, end: str | None, revision: int) -> int:
        with translated(self._path):
            parameters = (start, end or _LAST, first_id(revision + 1), first_id(revision + 1))
            return int(self._connection.execute(f"SELECT count(*) {_AS_OF}", parameters).fetchone()[0])

    def changes(self, after: int, up_to: int, limit: int) -> list[Row]:
        """Rows of revisions after ``after`` up to ``up_to``, in order; the last revision may be cut off."""
        with translated(self._path):
            sql = "SELECT id, key, created, previous, expires, value FROM revisions WHERE id >= ? AND id < ? ORDER BY id LIMIT ?"
            return self._connection.execute(sql, (first_id(after + 1), first_id(up_to + 1), limit)).fetchall()

    def begin_reading(self) -> int:
        """Hold on to the present state, until closed; its revision."""
        with translated(self._path):
            if (version := self._connection.execute("PRAGMA user_version").fetchone()[0]) != SCHEMA_VERSION:
                raise StorageUnavailableError(
                    f"{self._path}: has schema {version}, this program reads {SCHEMA_VERSION}; an API server of this version "
                    "brings it up to date when it starts"
                )
            self._connection.execute("BEGIN")
            last = self._connection.execute("SELECT max(id) FROM revisions").fetchone()[0] or 0
            progress = dict(self._connection.execute("SELECT name, value FROM progress"))
            return int(max(last >> POSITION_BITS, progress["revision"]))

    def living(self, start: str, limit: int) -> list[tuple[str, bytes, int, int, float | None]]:
        """Key, value, create revision, mod revision and expiry of the next living keys from ``start`` on."""
        sql = f"""SELECT r.key, r.value, r.created, r.id >> {POSITION_BITS}, r.expires FROM revisions r
          WHERE r.key >= ? AND r.id = (SELECT max(id) FROM revisions WHERE key = r.key) AND r.value IS NOT NULL
          ORDER BY r.key LIMIT ?"""  # noqa: S608
        with translated(self._path):
            return self._connection.execute(sql, (start, limit)).fetchall()

    def compact(self, revision: int, head: int) -> None:
        """Remember the compaction. ``head`` outlives the rows that carried it."""
        with translated(self._path), self._transaction():
            self._connection.execute("UPDATE progress SET value = ? WHERE name = 'compacted'", (revision,))
            self._connection.execute("UPDATE progress SET value = max(value, ?) WHERE name = 'revision'", (head,))

    def sweep(self, revisions: int) -> bool:
        """Delete superseded versions of the next few revisions up to the compacted one; True when there is no more."""
        with translated(self._path), self._transaction():
            run = self._connection.execute
            progress = dict(run("SELECT name, value FROM progress"))
            compacted, swept = progress["compacted"], progress["swept"]
            row = run("SELECT id FROM revisions WHERE id >= ? ORDER BY id LIMIT 1", (first_id(swept + 1),)).fetchone()
            begin = max(swept, (row[0] >> POSITION_BITS) - 1) if row else compacted
            end = min(begin + revisions, compacted)
            window = (first_id(begin + 1), first_id(end + 1))
            run(
                "DELETE FROM revisions WHERE id IN (SELECT previous FROM revisions WHERE id >= ? AND id < ? AND previous > 0)",
                window,
            )
            run("DELETE FROM revisions WHERE id >= ? AND id < ? AND value IS NULL", window)
            run("UPDATE progress SET value = ? WHERE name = 'swept'", (end,))
        return bool(end >= compacted)

    def shrink(self, pages: int) -> bool:
        """Give free pages back to the file system; True when there are no more."""
        with translated(self._path):
            free = int(self._connection.execute("PRAGMA freelist_count").fetchone()[0])
            if free > pages:  # keep a few: they will be used again at once
                self._connection.execute(f"PRAGMA incremental_vacuum({pages})").fetchall()
        return free <= 2 * pages

    def backup(self, target: Path) -> None:
        """A consistent copy while writes go on."""
        with translated(target), sqlite3.connect(target) as copy:
            self._connection.backup(copy, pages=256)
        copy.close()

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise


_LAST = "\U0010ffff"
_AS_OF = """FROM revisions r WHERE r.key >= ? AND r.key < ? AND r.id < ?
  AND r.id = (SELECT max(id) FROM revisions WHERE key = r.key AND id < ?) AND r.value IS NOT NULL"""


def _damaged(path: Path, what: str) -> str:
    return (
        f"{path}: the database is damaged ({what}). Stop the API server, keep a copy of the file, then restore a snapshot, or "
        f"save what can be read with: sqlite3 {path} .recover | sqlite3 {path}.recovered"
    )


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into StorageUnavailableError that say what to do."""
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "") or ""
        if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            raise StorageCorruptError(_damaged(path, str(error))) from error
        if name == "SQLITE_FULL":
            raise StorageUnavailableError(f"{path}: the disk is full; free some space, nothing needs a restart") from error
        raise StorageUnavailableError(f"{path}: {error} ({name or type(error).__name__})") from error
