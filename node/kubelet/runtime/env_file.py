"""Files of variables that containers write for one another: ``fileKeyRef`` (KEP-3721). Pure; ``env`` calls it.

The format is the part of POSIX shell that leaves nothing to guess: ``NAME='value'``, the value literal up to the next quote, over
several lines if need be; blank lines, ``# comments`` and a comment after a value. Messages are upstream's (pkg/util/env).
"""


class FormatError(ValueError):
    """The file is not understood; the text says where."""


def value_of(text: str, name: str) -> str:
    """The value of the first variable of that name; empty when there is none. Raises FormatError for what stands before it."""
    lines = text.split("\n")
    position = 0
    while position < len(lines):
        line, number = lines[position].removesuffix("\r").lstrip(" \t"), position + 1
        position += 1
        if not line or line.startswith("#"):
            continue
        key, rest = _split(line, number)
        if rest[:1] in (" ", "\t", ""):
            if not rest:
                raise _error(number, "value must be enclosed in single quotes")
            if key == name:
                return ""  # as in a shell: nothing is assigned
            continue
        value, position = _quoted(lines, rest, position, number)
        if key == name:
            return value
    return ""


def _split(line: str, number: int) -> tuple[str, str]:
    key, equals, rest = line.partition("=")
    if not equals:
        raise _error(number, "missing '='")
    bare = key.rstrip(" \t")
    if not bare:
        raise _error(number, "empty variable name")
    if bare != key:
        raise _error(number, "whitespace before '=' is not allowed")
    return key, rest


def _quoted(lines: list[str], rest: str, position: int, number: int) -> tuple[str, int]:
    """The value that begins at ``rest``, and the position of the line after it."""
    if not rest.startswith("'"):
        raise _error(number, "value must be enclosed in single quotes")
    rest, parts = rest[1:], []
    while "'" not in rest:
        parts.append(rest)
        if position >= len(lines):
            raise FormatError(f"invalid environment variable format starting at line {number}: unclosed single quote")
        rest = lines[position].removesuffix("\r")
        position += 1
    last, _, after = rest.partition("'")
    after = after.lstrip(" \t")
    if after and not after.startswith("#"):
        raise _error(position, "unexpected content after closing quote")
    return "\n".join([*parts, last]), position


def _error(number: int, why: str) -> FormatError:
    return FormatError(f"invalid environment variable format at line {number}: {why}")
