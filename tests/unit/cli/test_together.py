"""Several daemons on one command line."""

import click
import pytest

from cli.together import split


def test_daemons_are_cut_at_the_plus_signs() -> None:
    assert split(["scheduler", "--v", "2", "+", "proxy"]) == [["scheduler", "--v", "2"], ["proxy"]]


@pytest.mark.parametrize("arguments", [["+"], ["scheduler", "+"], ["+", "proxy"]])
def test_an_empty_part_is_refused(arguments: list[str]) -> None:
    with pytest.raises(click.UsageError, match="must name a daemon"):
        split(arguments)
