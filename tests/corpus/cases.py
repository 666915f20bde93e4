"""Reads the corpus: manifests with the verdict upstream gives them, for ``test_corpus`` and ``scripts/compare_with_upstream.py``.

``manifests/GROUP/KIND/`` holds up to three files of YAML documents. What is expected stands in the comments before a document:

    # the first line says in words what the document is about
    # 422 spec.replicas: Invalid value: -1: must be greater than or equal to 0      (one line for each cause)
    # source: the validation function, page or KEP of upstream that says so
    # v1.20: what kube-apiserver v1.20.2 says instead, and since when it is otherwise

``valid.yaml``: each document is stored; one that begins with ``# stored`` is what the document before it must have become.
``broken.yaml``: each document is refused. ``updates.yaml``: the first document is stored, the others are merge patches of it,
refused, or taken where no line gives a code. ``\\n`` in a cause is a line break, ``UID`` anywhere the object's own uid.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.catalog import strategies
from controlplane.apiserver.kinds.config import KindsConfig

Object = dict[str, Any]

ROOT = Path(__file__).with_name("manifests")
CODE = re.compile(r"# ([45]\d\d) (.*)")


@dataclass(frozen=True)
class Case:
    """One document and what must become of it."""

    folder: str  # group/kind
    title: str
    text: str  # the document as written
    code: int = 0  # 0: it is accepted
    causes: tuple[str, ...] = ()  # "field: message" of a 422, the message of anything else
    source: str = ""
    older: str = ""  # what v1.20 says instead, and why
    stored: Object | None = None  # what it becomes, where that is written down
    base: Object | None = None  # of a patch: the object it changes

    @property
    def body(self) -> Object:
        return load(self.text)

    @property
    def name(self) -> str:
        return f"{self.folder}: {self.title}"


def load(text: str) -> Any:
    return yaml.load(text, Loader=yaml.CSafeLoader)


def _unescaped(text: str) -> str:
    """A backslash and an n are a line break, two backslashes and an n what upstream prints as one of each."""
    return re.sub(r"(?<!\\)\\n", "\n", text).replace("\\\\n", "\\n")


@dataclass(frozen=True)
class _Document:
    title: str
    code: int
    causes: tuple[str, ...]
    source: str
    older: str
    text: str


def _documents(path: Path) -> Iterator[_Document]:
    for chunk in re.split(r"^---\n", path.read_text(), flags=re.MULTILINE):
        lines = chunk.splitlines()
        comments = [line for line in lines if line.startswith("# ")]
        text = "\n".join(line for line in lines if not line.startswith("# ")) + "\n"
        if not text.strip():
            continue
        told = [found for line in comments if (found := CODE.match(line))]
        yield _Document(
            comments[0].removeprefix("# ") if comments else "",
            int(told[0][1]) if told else 0,
            tuple(_unescaped(found[2]) for found in told),
            *(
                next((line.removeprefix(mark) for line in comments if line.startswith(mark)), "")
                for mark in ("# source: ", "# v1.20: ")
            ),
            text,
        )


def _case(folder: str, document: _Document, **more: Any) -> Case:
    return Case(folder, document.title, document.text, document.code, document.causes, document.source, document.older, **more)


def _valid(folder: str, path: Path) -> Iterator[Case]:
    documents = list(_documents(path))
    for position, document in enumerate(documents):
        if document.title != "stored":
            after = documents[position + 1] if position + 1 < len(documents) else None
            yield _case(folder, document, stored=load(after.text) if after and after.title == "stored" else None)


def _updates(folder: str, path: Path) -> Iterator[Case]:
    first, *patches = _documents(path)
    yield from (_case(folder, patch, base=load(first.text)) for patch in patches)


@cache
def cases(which: str) -> list[Case]:
    """``which``: valid, broken or updates."""
    read = {"valid": _valid, "updates": _updates}.get(
        which, lambda folder, path: (_case(folder, one) for one in _documents(path))
    )
    paths = sorted(ROOT.glob(f"*/*/{which}.yaml"))
    return [case for path in paths for case in read(path.parent.relative_to(ROOT).as_posix(), path)]


@cache
def _resources() -> dict[str, tuple[str, bool]]:
    infos = [one.info for one in strategies(KindsConfig())]
    return {f"{info.gvk.api_version} {info.gvk.kind}": (info.plural, info.namespaced) for info in infos}


def collection(obj: Object, api_version: str = "") -> str:
    """The path where the object is created; ``api_version`` for a server that knows it under another one."""
    plural, namespaced = _resources()[f"{obj['apiVersion']} {obj['kind']}"]
    group_version = api_version or obj["apiVersion"]
    root = f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
    return f"{root}/namespaces/default/{plural}" if namespaced else f"{root}/{plural}"


def causes_of(status: Object) -> list[str]:
    """``field: message`` of every cause of a Status, sorted; its message when it has none."""
    causes = (status.get("details") or {}).get("causes") or []
    if status.get("code") != 422 or not causes:
        return [status.get("message", "")]
    return sorted(f"{cause.get('field', '')}: {cause.get('message', '')}" for cause in causes)


def gvk_of(obj: Object) -> GroupVersionKind:
    group, _, version = obj["apiVersion"].rpartition("/")
    return GroupVersionKind(group, version, obj["kind"])
