import click
import pytest

from component import flags


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10s", 10), ("1m30s", 90), ("250ms", 0.25), ("1.5h", 5400), ("0", 0), ("-5s", -5), ("2us", 2e-6)],
)
def test_durations_are_gos(text, seconds):
    assert flags.parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "10", "s", "10x", "1m 30s", "abc"])
def test_other_durations_are_refused_by_name(text):
    with pytest.raises(ValueError, match="is not a duration"):
        flags.parse_duration(text)


def parse(argv, *params):
    return click.Command("x", params=list(params)).make_context("x", argv).params


@pytest.mark.parametrize(
    ("argv", "value"), [([], True), (["--on"], True), (["--on=false"], False), (["--on=true"], True)], ids=str
)
def test_switches_take_gos_forms(argv, value):
    assert parse(argv, flags.switch("--on", True, "help")) == {"on": value}


def test_lists_and_mappings():
    params = flags.option("--l", type=flags.COMMA_LIST), flags.option("--m", type=flags.KEY_VALUES)
    assert parse(["--l", "a, b,", "--m=x=1,y="], *params) == {"l": ("a", "b"), "m": {"x": "1", "y": ""}}


def test_a_pair_without_equals_is_refused():
    with pytest.raises(click.BadParameter, match="key=value"):
        parse(["--m=x"], flags.option("--m", type=flags.KEY_VALUES))
