"""The examples of ``docs/custom-resources.md``: what is shown there is what the stock kubectl prints."""

import re
import shlex
from pathlib import Path

from tests.support.apiserver import TestServer

PAGE = Path(__file__).parents[4] / "docs" / "custom-resources.md"
BLOCK = re.compile(r"^```(yaml|console) ?(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


async def test_the_page_shows_what_happens(server: TestServer, tmp_path: Path) -> None:
    blocks = BLOCK.findall(PAGE.read_text())
    for kind, name, text in blocks:
        if kind == "yaml":
            (tmp_path / name).write_text(text)
    commands = [part for kind, _, text in blocks if kind == "console" for part in text.removeprefix("$ ").split("\n$ ")]
    assert commands
    for command in commands:
        line, _, expected = command.partition("\n")
        program, *words = shlex.split(line)
        assert program == "kubectl"
        _, out, err = await server.kubectl(*(str(tmp_path / word) if (tmp_path / word).is_file() else word for word in words))
        assert (err + out).split() == expected.split(), line
