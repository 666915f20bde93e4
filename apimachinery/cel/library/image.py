"""References of images: made from text, taken apart. Upstream's ``library.Image``.

What is a reference, ``github.com/google/go-containerregistry/pkg/name`` says, which fills in Docker Hub and ``latest``.
"""

import re
from typing import Any

from apimachinery.cel import values
from apimachinery.cel.library.declare import BOOL, STRING, Overload, T

_TYPE = T(values.IMAGE)
_HUB = "index.docker.io"
_TAG = re.compile(r"[A-Za-z0-9_\-.]{1,128}")
_REPOSITORY = re.compile(r"[a-z0-9_\-./]{2,255}")
_REGISTRY = re.compile(r"(\[[0-9a-fA-F:.%]+\]|[A-Za-z0-9\-._~!$&'()*+,;=]*)(:[0-9]*)?")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_Parts = tuple[str, str, str, str]


def _read(text: str) -> _Parts:
    """Registry, repository, tag, digest: one of the last two is empty. Raises ValueError with upstream's message."""
    found = _tagged(text) or _digested(text)
    if found is None:
        raise ValueError(f"could not parse reference: {text}")
    return found


def _tagged(text: str) -> _Parts | None:
    base, colon, tag = text.rpartition(":")
    if not colon or "/" in tag:
        base, tag = text, "latest"
    place = _place(base)
    return (*place, tag, "") if place and _TAG.fullmatch(tag) else None


def _digested(text: str) -> _Parts | None:
    base, at, digest = text.partition("@")
    if not at or not _DIGEST.fullmatch(digest):
        return None
    tagged = _tagged(base)
    place = tagged[:2] if tagged else _place(base)
    return (*place, "", digest) if place else None


def _place(text: str) -> tuple[str, str] | None:
    first, slash, rest = text.partition("/")
    registry, repository = (first, rest) if slash and ("." in first or ":" in first) else ("", text)
    if not _REPOSITORY.fullmatch(repository) or not _REGISTRY.fullmatch(registry):
        return None
    if registry in ("", "docker.io"):
        registry = _HUB
    if registry == _HUB and "/" not in repository:
        repository = f"library/{repository}"
    return registry, repository


def _make(text: str) -> Any:
    _read(text)
    return values.make(values.IMAGE, text)


def _is_image(text: str) -> bool:
    return (_tagged(text) or _digested(text)) is not None


def _part(index: int) -> Any:
    return lambda value: _read(values.text_of(value))[index]


def _identifier(value: Any) -> str:
    _, _, tag, digest = _read(values.text_of(value))
    return digest or tag


OVERLOADS = (
    Overload("image", "string_to_image", (STRING,), _TYPE, _make),
    Overload("isImage", "is_image_string", (STRING,), BOOL, _is_image),
    Overload("containsDigest", "image_contains_digest", (_TYPE,), BOOL, lambda value: bool(_part(3)(value)), True),
    Overload("registry", "image_registry", (_TYPE,), STRING, _part(0), True),
    Overload("repository", "image_repository", (_TYPE,), STRING, _part(1), True),
    Overload("identifier", "image_identifier", (_TYPE,), STRING, _identifier, True),
    Overload("tag", "image_tag", (_TYPE,), STRING, _part(2), True),
    Overload("digest", "image_digest", (_TYPE,), STRING, _part(3), True),
)
