"""Image references, as far as defaulting must read them: the tag decides the pull policy."""

import re
from functools import lru_cache

_PATH = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_HOST = r"(?:[a-zA-Z0-9](?:[-a-zA-Z0-9]*[a-zA-Z0-9])?)(?:\.[a-zA-Z0-9](?:[-a-zA-Z0-9]*[a-zA-Z0-9])?)*(?::[0-9]+)?"
_REFERENCE_RE = re.compile(
    rf"(?P<name>(?:{_HOST}/)?{_PATH}(?:/{_PATH})*)(?::(?P<tag>[A-Za-z0-9_][-A-Za-z0-9_.]{{0,127}}))?"
    r"(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?"
)
_NAME_MAX = 255


@lru_cache(maxsize=1024)
def image_tag(image: str) -> str:
    """The tag an image reference asks for; ``latest`` when it has neither tag nor digest, none when it is malformed."""
    parts = _REFERENCE_RE.fullmatch(image)
    if parts is None or len(parts["name"]) > _NAME_MAX:
        return ""
    return parts["tag"] or ("" if parts["digest"] else "latest")
