"""docs/admission-policies.md is true: its files are written, its commands run by the stock kubectl, and say what it says."""

import re
import shlex
from pathlib import Path

from tests.support.apiserver import running_apiserver
from tests.support.control_plane import control_plane

PAGE = (Path(__file__).parents[3] / "docs/admission-policies.md").read_text()
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


def commands(text: str) -> list[tuple[list[str], str]]:
    """Arguments of kubectl, and what it then says."""
    asked = text.split("$ kubectl ")[1:]
    return [(shlex.split(line), said.strip()) for line, _, said in (each.partition("\n") for each in asked)]


async def test_the_page(tmp_path: Path) -> None:
    async with running_apiserver() as server, control_plane(server, schedule=False):
        for language, text in BLOCK.findall(PAGE):
            if language == "yaml":
                (tmp_path / text.partition("\n")[0].removeprefix("# ")).write_text(text)
                continue
            for arguments, expected in commands(text):
                given = [str(tmp_path / each) if each.endswith(".yaml") else each for each in arguments]
                _, out, err = await server.kubectl(*given)
                assert (out + err).strip() == expected, arguments
