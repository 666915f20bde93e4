"""Who may use an image that is here already."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from component.clock import FakeClock
from node.kubelet.images.credentials import Account, Credential, Found, PullSecret
from node.kubelet.images.pull_records import Access, PullRecords, check_pattern, merged, verifies

IMAGE, REF = "r.io/team/app:1", "sha256:1"
MINE = Found(Credential("u", "p"), PullSecret("1", "n", "mine", "hash-1"))
COPY = Found(Credential("u", "p"), PullSecret("2", "m", "copy", "hash-1"))
ROTATED = Found(Credential("u", "q"), PullSecret("1", "n", "mine", "hash-2"))
OTHER = Found(Credential("v", "q"), PullSecret("3", "n", "other", "hash-3"))
ROBOT = Found(Credential("x", "y"), account=Account("9", "n", "robot"))
NODE = Found(Credential("x", "y"))


@dataclass
class Image:
    id: str = REF
    repo_tags: tuple[str, ...] = (IMAGE,)
    repo_digests: tuple[str, ...] = ()


def _records(path: Path, policy: str = "NeverVerifyPreloadedImages", *allowed: str) -> PullRecords:
    return PullRecords(path, policy, allowed, FakeClock())


async def test_what_was_here_before_is_for_everybody(tmp_path: Path) -> None:
    records = _records(tmp_path)
    await records.load([Image()])
    assert not records.must_pull(IMAGE, REF, [])


@pytest.mark.parametrize(
    ("used", "may", "may_not"),
    [
        (MINE, (MINE, COPY, ROTATED), (OTHER, ROBOT, NODE)),
        (ROBOT, (ROBOT,), (MINE,)),
        (NODE, (MINE, OTHER), ()),
        (None, (MINE, OTHER), ()),
    ],
)
async def test_what_was_pulled_is_for_those_who_could(
    tmp_path: Path, used: Found | None, may: tuple[Found, ...], may_not: tuple[Found, ...]
) -> None:
    records = _records(tmp_path)
    await records.load([])
    await records.pulling(IMAGE)
    await records.pulled(IMAGE, REF, used)
    for _ in range(2):  # the second time as a new kubelet reads them
        assert records.must_pull(IMAGE, REF, []) is bool(may_not)
        assert [records.must_pull(IMAGE, REF, [each]) for each in may] == [False] * len(may)
        assert [records.must_pull(IMAGE, REF, [each]) for each in may_not] == [True] * len(may_not)
        assert records.must_pull("other.io/team/app:1", REF, list(may)), "another name is another question"
        assert not records.must_pull("r.io/team/app:2", REF, list(may)), "another tag is not"
        records = _records(tmp_path)
        await records.load([Image()])
    assert not list((tmp_path / "pulling").iterdir())


async def test_who_uses_it_by_a_copy_counts_himself(tmp_path: Path) -> None:
    records = _records(tmp_path)
    await records.load([])
    await records.pulled(IMAGE, REF, MINE)
    await records.note_use(IMAGE, REF, [ROTATED, OTHER])
    assert not records.must_pull(IMAGE, REF, [Found(ROTATED.credential, PullSecret("7", "n", "x", "hash-2"))])
    assert records.must_pull(IMAGE, REF, [OTHER])


async def test_a_pull_that_was_cut_short_is_nobodys(tmp_path: Path) -> None:
    records = _records(tmp_path)
    await records.load([])
    await records.pulling(IMAGE)
    assert records.must_pull(IMAGE, REF, [])
    again = _records(tmp_path)
    await again.load([Image()])
    assert again.must_pull(IMAGE, REF, [MINE])
    assert not list((tmp_path / "pulling").iterdir())


async def test_a_pull_that_failed_leaves_nothing(tmp_path: Path) -> None:
    records = _records(tmp_path)
    await records.load([])
    await records.pulling(IMAGE)
    await records.pulling(IMAGE)
    await records.failed(IMAGE)
    assert list((tmp_path / "pulling").iterdir())
    await records.failed(IMAGE)
    assert not list((tmp_path / "pulling").iterdir())
    assert not records.must_pull(IMAGE, REF, [])


async def test_images_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    records = _records(tmp_path)
    await records.load([])
    await records.pulled(IMAGE, REF, MINE)
    await records.prune([], "2000-01-01T00:00:00Z")
    assert records.must_pull(IMAGE, REF, [OTHER]), "the record is newer than the list"
    await records.prune([REF], "2999-01-01T00:00:00Z")
    assert records.must_pull(IMAGE, REF, [OTHER])
    await records.prune([], "2999-01-01T00:00:00Z")
    assert not list((tmp_path / "pulled").iterdir())


async def test_files_that_cannot_be_read_are_no_records(tmp_path: Path) -> None:
    (tmp_path / "pulled").mkdir()
    (tmp_path / "pulled" / "sha256-00").write_text("{")
    (tmp_path / "pulled" / ".sha256-11.tmp").write_text("{")
    records = _records(tmp_path)
    await records.load([])
    assert not records.must_pull(IMAGE, REF, [])


@pytest.mark.parametrize(
    ("policy", "image", "pulled_here", "wanted"),
    [
        ("NeverVerify", IMAGE, True, False),
        ("NeverVerifyPreloadedImages", IMAGE, True, True),
        ("NeverVerifyPreloadedImages", IMAGE, False, False),
        ("AlwaysVerify", IMAGE, False, True),
        ("NeverVerifyAllowlistedImages", "r.io/team/app:1", True, False),
        ("NeverVerifyAllowlistedImages", "r.io/team/apps:1", True, True),
        ("NeverVerifyAllowlistedImages", "s.io/any/thing@sha256:00", False, False),
        ("NeverVerifyAllowlistedImages", "t.io/any", False, True),
    ],
)
def test_policies(policy: str, image: str, pulled_here: bool, wanted: bool) -> None:
    assert verifies(policy, ["r.io/team/app", "s.io/*"], image, pulled_here=pulled_here) is wanted


@pytest.mark.parametrize(
    ("pattern", "why"),
    [(" a.io/b", "spaces"), ("a.io/*/b", "not a valid wildcard"), ("/*", "hostname is required"), ("a.io/b:1", "neither tag")],
)
def test_patterns_that_are_none(pattern: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        check_pattern(pattern)
    check_pattern("a.io/b")
    check_pattern("a.io/b/*")


def test_merging() -> None:
    mine, rotated = (each.secret for each in (MINE, ROTATED))
    assert mine is not None
    assert rotated is not None
    assert merged(Access(secrets=(mine,)), Access(secrets=(rotated,))) == Access(secrets=(rotated,))
    assert merged(Access(secrets=(mine,)), Access(everybody=True)) == Access(everybody=True)
