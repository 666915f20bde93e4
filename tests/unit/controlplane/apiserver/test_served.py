"""Our discovery against upstream's, resource by resource: ``discovery_v1_36.txt`` is the list."""

from dataclasses import dataclass, field
from pathlib import Path

import orjson
import pytest

from apimachinery.gvk import GroupVersion
from controlplane.apiserver.assembly.served import listed_resources
from controlplane.apiserver.discovery import Discovery, Listed
from controlplane.apiserver.kinds.catalog import strategies
from controlplane.apiserver.kinds.config import KindsConfig
from controlplane.apiserver.kinds.served import select

ALL = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
WORDS = {"*": ALL, "rw": ("get", "patch", "update")}


@dataclass
class Expected:
    """A resource as the list has it, in the form that ``described`` gives."""

    kind: str
    namespaced: bool
    verbs: tuple[str, ...]
    singular: str
    short: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    parts: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)


def verbs_of(word: str) -> tuple[str, ...]:
    return WORDS.get(word) or tuple(word.split(","))


def expected() -> dict[str, Expected]:
    found: dict[str, Expected] = {}
    version = ""
    current: Expected | None = None
    for line in (Path(__file__).parent / "discovery_v1_36.txt").read_text().splitlines():
        words = line.split()
        if line.startswith("#"):
            continue
        if line.startswith("  "):
            assert current is not None
            own = words[1] if version == "v1" else f"{version}/{words[1]}"
            current.parts[words[0]] = (words[1] if "/" in words[1] else own, verbs_of(words[2]))
        elif len(words) == 1:
            version = words[0]
        else:
            plural, kind, scope, verbs, *more = words
            options = dict(word.split("=") for word in more)
            short, categories = (tuple(options[key].split(",")) if key in options else () for key in ("short", "categories"))
            singular = options.get("singular", kind.lower())
            current = Expected(kind, scope == "N", verbs_of(verbs), singular, short, categories)
            found[f"{version} {plural}"] = current
    return found


def described(one: Listed) -> Expected:
    info = one.info
    parts = {}
    for part in one.subresources:
        own = part.kind.api_version == info.gvk.api_version
        prefix = f"{info.gvk.api_version}/" if info.gvk.group else ""
        kind = f"{prefix}{part.kind.kind}" if own else f"{part.kind.api_version}/{part.kind.kind}"
        parts[part.name] = (kind, part.verbs)
    verbs = tuple(sorted(info.verbs))
    return Expected(info.gvk.kind, info.namespaced, verbs, info.singular, info.short_names, info.categories, parts)


WANTED = expected()
SERVED = {f"{one.info.gvk.api_version} {one.info.plural}": one for one in listed_resources(select(strategies(KindsConfig()), {}))}


@pytest.mark.parametrize("name", sorted(WANTED))
def test_is_served_as_upstream_serves_it(name: str) -> None:
    assert name in SERVED
    assert described(SERVED[name]) == WANTED[name]


def test_nothing_else_is_served() -> None:
    assert set(SERVED) - set(WANTED) == set()


@pytest.mark.parametrize(
    ("version", "plural", "digest"),
    [  # upstream's own documents have these
        ("v1", "pods", "xPOwRZ+Yhw8="),
        ("v1", "events", "r2yiGXH7wu8="),
        ("events.k8s.io/v1", "events", "r2yiGXH7wu8="),
        ("autoscaling/v1", "horizontalpodautoscalers", "qwQve8ut294="),
        ("autoscaling/v2", "horizontalpodautoscalers", "qwQve8ut294="),
        ("admissionregistration.k8s.io/v1", "mutatingadmissionpolicies", "mHCkTKpUTrE="),
        ("storage.k8s.io/v1", "volumeattachments", "tJx/ezt6UDU="),
    ],
)
def test_every_version_of_a_kind_has_the_hash_of_the_stored_one(version: str, plural: str, digest: str) -> None:
    discovery = Discovery(list(SERVED.values()))
    document = discovery.resources(GroupVersion.parse(version))
    assert document is not None
    rows = {row["name"]: row for row in orjson.loads(document.body)["resources"]}
    assert rows[plural]["storageVersionHash"] == digest
