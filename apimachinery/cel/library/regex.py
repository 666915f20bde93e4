"""Regular expressions: ``find``, ``findAll``. RE2, linear in the text, as Go's are. Upstream's ``library.Regex``."""

from functools import lru_cache
from typing import Any

from apimachinery.cel.library.declare import INT, STRING, Overload, list_of


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Any:
    """Raises ValueError for what is no pattern."""
    import re2

    quiet = re2.Options()
    quiet.log_errors = False
    try:
        return re2.compile(pattern, quiet)
    except re2.error as error:
        reason = error.args[0]
        raise ValueError(f"Illegal regex: {reason.decode() if isinstance(reason, bytes) else reason}") from None


def _find(text: str, pattern: str) -> str:
    found = compiled(pattern).search(text)
    return found.group(0) if found else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = [match.group(0) for match in compiled(pattern).finditer(text)]
    return found if limit < 0 else found[:limit]


OVERLOADS = (
    Overload("find", "string_find_string", (STRING, STRING), STRING, _find, True),
    Overload("findAll", "string_find_all_string", (STRING, STRING), list_of(STRING), _find_all, True),
    Overload("findAll", "string_find_all_string_int", (STRING, STRING, INT), list_of(STRING), _find_all, True),
)
