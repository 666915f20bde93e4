"""Where the code comes from, as ``/version`` tells it."""

import subprocess
from pathlib import Path

import pytest

from component.version import COMMIT_FILE, git_commit

HASH = "0123456789abcdef0123456789abcdef01234567"
OTHER = HASH[::-1]


def checkout(root: Path, head: str, **files: str) -> None:
    for name, text in {"HEAD": head, **files}.items():
        path = root / ".git" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_branch(tmp_path: Path) -> None:
    checkout(tmp_path, "ref: refs/heads/main\n", **{"refs/heads/main": f"{HASH}\n"})
    assert git_commit(tmp_path) == HASH


def test_a_packed_branch(tmp_path: Path) -> None:
    checkout(tmp_path, "ref: refs/heads/main\n", **{"packed-refs": f"# pack\n{OTHER} refs/heads/other\n{HASH} refs/heads/main\n"})
    assert git_commit(tmp_path) == HASH


def test_no_branch(tmp_path: Path) -> None:
    checkout(tmp_path, f"{HASH}\n")
    assert git_commit(tmp_path) == HASH


def test_a_linked_work_tree_as_git_makes_it(tmp_path: Path) -> None:
    main, linked = tmp_path / "main", tmp_path / "linked"

    def git(*words: str) -> str:
        identity = ["-c", "user.name=n", "-c", "user.email=e@example.com"]
        done = subprocess.run(["git", *identity, "-C", str(main), *words], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    main.mkdir()
    git("init", "--quiet")
    git("commit", "--allow-empty", "--quiet", "-m", "one")
    git("worktree", "add", "--quiet", str(linked), "-b", "side")
    assert git_commit(main) == git_commit(linked) == git("rev-parse", "HEAD")


@pytest.mark.parametrize("head", ["", "ref: refs/heads/gone\n", "nonsense\n"])
def test_without_a_usable_checkout_the_build_knows(tmp_path: Path, head: str) -> None:
    if head:
        checkout(tmp_path, head)
    assert git_commit(tmp_path) == ""
    path = tmp_path / COMMIT_FILE
    path.parent.mkdir()
    path.write_text(f"{OTHER}\n")
    assert git_commit(tmp_path) == OTHER
