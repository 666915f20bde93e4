"""A list of any length leaves the server's memory where it was, in whatever form and at whatever revision it is asked for."""

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from bench import lists
from bench.lists import FORMS, PODS
from bench.storage import pod
from tests.support.daemons import Bench

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the peak of another process's memory is root's to begin anew")

COUNT = 1_500
PAD = 80_000  # bytes of each, which no form but JSON and protobuf carries; 120 MB together
ALLOWED = 60.0  # MB for all clients together; the encoding of one list is twice that


def large(number: int) -> dict[str, Any]:
    made = pod(number)
    made["spec"]["containers"][0]["env"].append({"name": "PAD", "value": f"{number} " * (PAD // len(f"{number} "))})
    return made


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bench, int]]:
    with lists.serving(tmp_path_factory.mktemp("lists"), COUNT, large) as made:
        yield made


@pytest.mark.parametrize(("form", "clients"), [("JSON", 4), ("protobuf", 2), ("Table", 2), ("metadata", 2)])
def test_the_whole_list(server: tuple[Bench, int], form: str, clients: int) -> None:
    rise, _ = lists.rise(*server, PODS, FORMS[form], clients)
    assert rise < ALLOWED


def test_the_whole_object_in_each_row(server: tuple[Bench, int]) -> None:
    """The largest form of all: each object once more as text of its row."""
    rise, _ = lists.rise(*server, f"{PODS}?includeObject=Object", FORMS["Table"], 2)
    assert rise < ALLOWED


def test_a_revision_that_history_still_knows(server: tuple[Bench, int]) -> None:
    """Objects that have not changed since are the present ones; only what changed is another."""
    made, pid = server
    then = lists.overtake(made, large(COUNT // 2)["metadata"]["name"])
    exact = f"{PODS}?resourceVersion={then}&resourceVersionMatch=Exact"
    rise, _ = lists.rise(made, pid, exact, FORMS["JSON"], 2)
    assert rise < ALLOWED
    now, past = (json.loads(lists.read(made, path, FORMS["metadata"], keep=True)) for path in (PODS, exact))
    assert past["metadata"]["resourceVersion"] == then
    assert len(past["items"]) == len(now["items"]) + 1
    assert {each["metadata"]["name"] for each in past["items"]} >= {each["metadata"]["name"] for each in now["items"]}


def test_a_revision_that_only_the_store_knows(server: tuple[Bench, int]) -> None:
    """It is read from the disk page by page, while it is sent."""
    made, pid = server
    first = json.loads(lists.read(made, f"{PODS}?limit=1", FORMS["JSON"], keep=True))["items"][0]
    at = int(first["metadata"]["resourceVersion"]) + COUNT - 1  # the database was filled in the order of names
    exact = f"{PODS}?resourceVersion={at}&resourceVersionMatch=Exact"
    rise, _ = lists.rise(made, pid, exact, FORMS["JSON"], 2)
    assert rise < ALLOWED
    past = json.loads(lists.read(made, exact, FORMS["metadata"], keep=True))
    assert len(past["items"]) == COUNT
