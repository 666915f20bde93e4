"""What is wrong with a text that is not JSON, said as Go's decoder says it. Runs only after ``orjson`` has refused.

A pushdown scanner over the text: it knows what may come next, and names the first character that may not.
"""

import re

_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_POINT_OR_EXPONENT = re.compile(r"\.|[eE][+-]?")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
END = "unexpected end of JSON input"
MAX_DEPTH = 250  # Go allows 10,000; nothing real passes 60, and everything here recurses
TOO_DEEP = "exceeded max depth"
NO_FAULT = "invalid JSON"


class _SyntaxFaultError(Exception):
    pass


def explain(data: bytes) -> str:
    """``invalid character '}' looking for beginning of value`` and its kin."""
    text = data.decode("utf-8", "replace")
    try:
        _Scanner(text).document()
    except _SyntaxFaultError as fault:
        return str(fault)
    except RecursionError:
        return TOO_DEEP
    if b"\xff" in data or "�" in text:
        return "invalid UTF-8 in JSON text"
    return NO_FAULT  # orjson refuses what Go's scanner would let pass, such as lone surrogates


def _quoted(character: str) -> str:
    if character == "'":
        return r"'\''"
    if character == '"':
        return "'\"'"
    return repr(character) if character.isprintable() else "'" + repr(character)[1:-1] + "'"


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def document(self) -> None:
        open_with: list[str] = []  # brackets not yet closed
        self.value(open_with)
        while open_with:
            self.step(open_with)
        self.space()
        if self.at < len(self.text):
            self.fail("after top-level value")

    def step(self, open_with: list[str]) -> None:
        """After a value inside a container: a comma and the next value, or the end of the container."""
        self.space()
        character = self.peek()
        closing = "}" if open_with[-1] == "{" else "]"
        if character == closing:
            self.at += 1
            open_with.pop()
        elif character == ",":
            self.at += 1
            self.member(open_with) if open_with[-1] == "{" else self.value(open_with)
        else:
            self.fail("after object key:value pair" if closing == "}" else "after array element")

    def member(self, open_with: list[str]) -> None:
        self.space()
        if self.peek() != '"':
            self.fail("looking for beginning of object key string")
        self.string()
        self.space()
        if self.peek() != ":":
            self.fail("after object key")
        self.at += 1
        self.value(open_with)

    def value(self, open_with: list[str]) -> None:
        self.space()
        character = self.peek()
        if character in "{[":
            self.at += 1
            self.begin(character, open_with)
        elif character == '"':
            self.string()
        elif character == "-" or character.isdigit():
            self.number()
        elif character in "tfn":
            self.literal({"t": "true", "f": "false", "n": "null"}[character])
        else:
            self.fail("looking for beginning of value")

    def begin(self, bracket: str, open_with: list[str]) -> None:
        self.space()
        if self.peek() == ("}" if bracket == "{" else "]"):
            self.at += 1
            return
        open_with.append(bracket)
        if len(open_with) > MAX_DEPTH:
            raise _SyntaxFaultError(TOO_DEEP)
        if bracket == "{":
            self.member(open_with)
        else:
            self.value(open_with) if self.peek() not in "[" else self.nested(open_with)

    def nested(self, open_with: list[str]) -> None:
        """Runs of ``[[[[`` without recursion."""
        while self.at < len(self.text) and self.text[self.at] == "[":
            self.at += 1
            self.space()
            if self.peek() == "]":
                self.at += 1
                return
            open_with.append("[")
            if len(open_with) > MAX_DEPTH:
                raise _SyntaxFaultError(TOO_DEEP)
        self.value(open_with)

    def string(self) -> None:
        self.at += 1
        while True:
            self.skip(_PLAIN)
            character = self.peek()
            if character == '"':
                self.at += 1
                return
            if character != "\\":
                self.fail("in string literal")
            if not self.skip(_ESCAPE):
                self.escape()

    def escape(self) -> None:
        self.at += 1
        if self.peek() != "u":
            self.fail("in string escape code")
        for _ in range(4):
            self.at += 1
            if self.peek() not in "0123456789abcdefABCDEF":
                self.fail("in \\u hexadecimal character escape")

    def number(self) -> None:
        if self.skip(_NUMBER):
            if self.at < len(self.text) and self.text[self.at] in ".eE":
                self.fraction_or_exponent()
            return
        self.at += 1
        self.peek()
        self.fail("in numeric literal")

    def fraction_or_exponent(self) -> None:
        """One that has no digits."""
        where = "after decimal point in numeric literal" if self.text[self.at] == "." else "in exponent of numeric literal"
        self.skip(_POINT_OR_EXPONENT)
        self.peek()
        self.fail(where)

    def literal(self, word: str) -> None:
        for expected in word[1:]:
            self.at += 1
            if self.peek() != expected:
                self.fail(f"in literal {word} (expecting {_quoted(expected)})")
        self.at += 1

    def space(self) -> None:
        self.skip(_SPACE)

    def skip(self, pattern: re.Pattern[str]) -> bool:
        found = pattern.match(self.text, self.at)
        if found is None:
            return False
        self.at = found.end()
        return True

    def peek(self) -> str:
        if self.at >= len(self.text):
            raise _SyntaxFaultError(END)
        return self.text[self.at]

    def fail(self, where: str) -> None:
        raise _SyntaxFaultError(f"invalid character {_quoted(self.text[self.at])} {where}")
