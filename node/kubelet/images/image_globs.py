"""Patterns of registries and images: ``*.dkr.ecr.*.amazonaws.com``, ``registry.io:8080/path``. Pure; upstream's ``URLsMatch``.

A pattern matches when host and image have the same number of labels and each matches as a glob, the path of the pattern is a
prefix of the image's, and the ports are the same.
"""

import re
from fnmatch import translate
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit


class Location(NamedTuple):
    """A registry, and a path in it (with its leading slash, or empty)."""

    host: str
    port: str
    path: str


def parse(text: str) -> Location:
    """A location without a scheme (one that is there is dropped). Raises ValueError."""
    bare = text.partition("://")[2] if "://" in text else text
    split = urlsplit(f"https://{bare}")
    host, colon, port = split.netloc.rpartition("@")[2].partition(":")
    if colon and not port.isdigit():
        raise ValueError(f'parse "https://{bare}": invalid port ":{port}" after host')
    if not host:
        raise ValueError(f'"{text}" names no host')
    return Location(host, port, split.path)


def matches(pattern: str, image: str) -> bool:
    """Whether ``image`` (a reference, or a location) is what ``pattern`` says."""
    try:
        wanted, given = parse(pattern), parse(image)
    except ValueError:
        return False
    ours, theirs = wanted.host.split("."), given.host.split(".")
    if wanted.port != given.port or len(ours) != len(theirs) or not given.path.startswith(wanted.path):
        return False
    return all(_glob(each).fullmatch(label) for each, label in zip(ours, theirs, strict=True))


@lru_cache(maxsize=256)
def _glob(pattern: str) -> re.Pattern[str]:
    return re.compile(translate(pattern))
