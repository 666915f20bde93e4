"""Types of objects: the checker finds what an expression has wrong about them."""

import pytest

from apimachinery.cel import shapes
from apimachinery.cel.environment import CompileError, Environment, typed
from apimachinery.cel.shapes import ANY, INT, STRING, TIMESTAMP, list_of, map_of, object_of

PORT = object_of("Port", {"name": STRING, "number": INT})
THING = object_of(
    "Thing",
    {
        "name": STRING,
        "ports": list_of(PORT),
        "labels": map_of(STRING),
        "by_name": map_of(PORT),
        "since": TIMESTAMP,
        "anything": ANY,
        "lists": list_of(list_of(STRING)),
        "maps": map_of(map_of(STRING)),
        "x-odd": STRING,
    },
)
ENVIRONMENT = Environment({"thing": typed(THING)}, pool=shapes.pool_of(THING))


@pytest.mark.parametrize(
    ("expression", "returns"),
    [
        ("thing.name", "string"),
        ("thing.ports[0].number", "int"),
        ("thing.ports.map(p, p.name)", "list<string>"),
        ("thing.labels.app", "string"),
        ("thing.by_name['a'].number", "int"),
        ("thing.since.getFullYear()", "int"),
        ("thing.anything.at.all", "dyn"),
        ("thing.lists[0][0]", "dyn"),
        ("thing.maps.a.b", "dyn"),
        ("has(thing.name)", "bool"),
    ],
)
def test_types(expression: str, returns: str) -> None:
    assert ENVIRONMENT.compile(expression).returns == returns


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("thing.nme", "<input>:1:6: undefined field 'nme'\n"),
        ("thing.ports.all(p, p.nmbr > 1)", "undefined field 'nmbr'\n"),
        ("thing.ports.all(p, p.number > 'a')", r"no matching overload for '_>_' applied to '\(int, string\)'"),
        ("thing.labels.app == 1", r"no matching overload for '_==_' applied to '\(string, int\)'"),
    ],
)
def test_problems(expression: str, problem: str) -> None:
    with pytest.raises(CompileError, match=problem):
        ENVIRONMENT.compile(expression)
