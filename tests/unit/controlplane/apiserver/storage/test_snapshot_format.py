"""The snapshot file: what goes in comes out, and nothing that is not whole is believed."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.apiserver.storage.snapshots.format import Header, Item, SnapshotError, header_of, read, writing
from controlplane.apiserver.storage.snapshots.service import expired
from controlplane.apiserver.storage.snapshots.targets import batches, kept

HEADER = Header(7, "2026-01-01T00:00:00Z", "sqlite")
ITEMS = st.lists(
    st.builds(
        Item,
        st.text(min_size=1, max_size=10),
        st.binary(max_size=40),
        st.integers(1, 1 << 60),
        st.integers(1, 1 << 60),
        st.none() | st.floats(0, 1e10),
    ),
    max_size=30,
)


def written(folder: Path, items: list[Item]) -> Path:
    path = folder / "x.snapshot"
    path.unlink(missing_ok=True)
    with writing(path, HEADER) as writer:
        writer.add(items)
    return path


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ITEMS, st.integers(1, 10))
def test_what_goes_in_comes_out(tmp_path: Path, items: list[Item], batch: int) -> None:
    path = written(tmp_path, items)
    assert header_of(path) == HEADER
    assert [item for page in read(path, batch) for item in page] == items


SOME = [Item(f"/registry/pods/default/{number}", b'{"n":%d}' % number, number, number) for number in range(50)]


def test_it_is_lines_of_json_that_only_its_owner_reads(tmp_path: Path) -> None:
    path = written(tmp_path, [*SOME, Item("/registry/secrets/default/s", b"\xff\x00", 9, 9, 12.5)])
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    assert lines[0]["format"] == "pybernetes-snapshot"
    assert lines[1] == {"key": "/registry/pods/default/0", "created": 0, "modified": 0, "value": '{"n":0}'}
    assert lines[-2] == {"key": "/registry/secrets/default/s", "created": 9, "modified": 9, "expires": 12.5, "base64": "/wA="}
    assert lines[-1]["keys"] == 51
    assert path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["x.snapshot"]


def test_an_existing_file_is_left_alone(tmp_path: Path) -> None:
    path = written(tmp_path, SOME)
    before = path.read_bytes()
    with pytest.raises(SnapshotError, match="exists"), writing(path, HEADER):
        pass
    assert path.read_bytes() == before


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with writing(tmp_path / "x", HEADER) as writer:
            writer.add(SOME)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert not list(tmp_path.iterdir())


def rewritten(path: Path, change: "type[bytes] | object") -> None:
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    assert callable(change)
    path.write_bytes(gzip.compress(b"".join(change(lines))))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(
            lambda lines: [line.replace(b"default/7", b"default/8") for line in lines], "checksum is wrong", id="changed"
        ),
        pytest.param(lambda lines: lines[:10] + lines[11:], "checksum is wrong", id="a key less"),
        pytest.param(lambda lines: [lines[0], lines[2], lines[1], *lines[3:]], "checksum is wrong", id="another order"),
        pytest.param(lambda lines: lines[:-1], "cut off after 50 keys", id="no end"),
        pytest.param(lambda lines: [*lines, b"{}\n"], "after the checksum", id="something more"),
        pytest.param(lambda lines: [b"{}\n", *lines[1:]], "not a snapshot", id="another file"),
        pytest.param(lambda lines: [lines[0].replace(b'"version":1', b'"version":9'), *lines[1:]], "version 9", id="later"),
        pytest.param(lambda lines: [*lines[:3], b"[]\n", *lines[3:]], "no record", id="no record"),
        pytest.param(lambda lines: [*lines[:3], b"{nonsense\n", *lines[3:]], "cannot be read", id="no JSON"),
    ],
)
def test_what_is_not_whole_is_refused(tmp_path: Path, change: object, message: str) -> None:
    path = written(tmp_path, SOME)
    rewritten(path, change)
    with pytest.raises(SnapshotError, match=message):
        list(read(path))


@pytest.mark.parametrize("kept_share", [0.0, 0.3, 0.9, 0.99])
def test_any_cut_is_noticed(tmp_path: Path, kept_share: float) -> None:
    path = written(tmp_path, SOME)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * kept_share)])
    with pytest.raises(SnapshotError):
        list(read(path))


def test_batches_fit_into_a_transaction() -> None:
    large = [Item(f"/{number}", b"x" * 400_000, 1, 1) for number in range(5)]
    assert [len(batch) for batch in batches(large)] == [2, 2, 1]
    assert [len(batch) for batch in batches(SOME * 5)] == [100, 100, 50]
    assert list(batches([])) == []


def test_what_has_expired_and_what_names_gone_processes_is_left_behind() -> None:
    items = [
        Item("/registry/events/default/old", b"", 1, 1, 99.0),
        Item("/registry/events/default/new", b"", 1, 1, 101.0),
        Item("/registry/masterleases/10.0.0.1", b"", 1, 1, 200.0),
        Item("/registry/pybernetes.io/revision-offset", b"5", 1, 1),
        Item("/registry/pods/default/p", b"", 1, 1),
    ]
    assert [item.key for item in kept(items, 100.0)] == ["/registry/events/default/new", "/registry/pods/default/p"]


def test_the_oldest_go_first(tmp_path: Path) -> None:
    for name in ("2026-01.snapshot", "2026-03.snapshot", "2026-02.snapshot", "notes.txt"):
        (tmp_path / name).touch()
    assert [path.name for path in expired(tmp_path, 2)] == ["2026-01.snapshot"]
