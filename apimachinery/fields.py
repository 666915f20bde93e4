"""Field selectors: ``spec.nodeName=a,status.phase!=Running``. Parsed here, matched against extracted values.

The escapes and error texts follow k8s.io/apimachinery ``pkg/fields``.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Requirement:
    """``operator`` is ``=`` or ``!=``."""

    field: str
    operator: str
    value: str

    def matches(self, values: Mapping[str, str]) -> bool:
        return (values.get(self.field, "") == self.value) == (self.operator == "=")

    def __str__(self) -> str:
        return f"{self.field}{self.operator}{escape(self.value)}"


@dataclass(frozen=True, slots=True)
class Selector:
    """All requirements must hold; none at all matches everything."""

    requirements: tuple[Requirement, ...] = ()

    @property
    def empty(self) -> bool:
        return not self.requirements

    def matches(self, values: Mapping[str, str]) -> bool:
        return all(requirement.matches(values) for requirement in self.requirements)

    def equals(self) -> tuple[tuple[str, str], ...]:
        """The exact requirements, which an index can serve."""
        return tuple((one.field, one.value) for one in self.requirements if one.operator == "=")

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


EVERYTHING = Selector()


def escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")


def _unescape(value: str) -> str:
    if not any(special in value for special in "\\,="):
        return value
    result = []
    characters = iter(value)
    for character in characters:
        if character == "\\":
            following = next(characters, "")
            if following not in ("\\", ",", "="):
                raise ValueError(f"invalid field selector: invalid escape sequence: \\{following}")
            result.append(following)
        elif character in ",=":
            raise ValueError(f"invalid field selector: unescaped character in value: {ord(character)}")
        else:
            result.append(character)
    return "".join(result)


def _terms(text: str) -> list[str]:
    terms: list[str] = []
    current: list[str] = []
    escaped = False
    for character in text:
        if character == "," and not escaped:
            terms.append("".join(current))
            current = []
            continue
        escaped = character == "\\" and not escaped
        current.append(character)
    terms.append("".join(current))
    return terms


def _split(term: str) -> tuple[str, str, str] | None:
    """The first operator that is not escaped parts the name from the value."""
    escaped = False
    for position, character in enumerate(term):
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif term.startswith("!=", position):
            return term[:position], "!=", term[position + 2 :]
        elif character == "=":
            width = 2 if term.startswith("==", position) else 1
            return term[:position], "=", term[position + width :]
    return None


def parse(text: str) -> Selector:
    """Read a field selector. Raises ValueError with upstream's text."""
    requirements = []
    for term in _terms(text):
        if not term:
            continue
        parts = _split(term)
        if parts is None:
            raise ValueError(f"invalid selector: '{text}'; can't understand '{term}'")
        field, operator, value = parts
        requirements.append(Requirement(field, operator, _unescape(value)))
    return Selector(tuple(requirements))
