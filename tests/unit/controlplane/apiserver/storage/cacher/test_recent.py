"""Equal lists are answered once, and never with what has been overtaken."""

import random
from collections.abc import AsyncIterator

import pytest

from controlplane.apiserver.endpoints.options import list_options
from controlplane.apiserver.storage.backends.memory import MemoryBackend
from controlplane.apiserver.storage.cacher import recent
from controlplane.apiserver.storage.cacher.cacher import Cacher
from controlplane.apiserver.storage.interface import ListOptions, ListResult
from tests.support.kinds import strategy
from tests.support.stores import PREFIX, cached, key, labelled, pod

PODS = strategy("pods")


@pytest.fixture
async def cacher() -> AsyncIterator[Cacher]:
    backend = MemoryBackend()
    async with cached(backend) as made:
        yield made
    await backend.close()


async def listed(cacher: Cacher, **query: str) -> ListResult:
    return await cacher.list(PREFIX, list_options(query, PODS))


async def test_an_equal_list_is_the_same_until_something_changes(cacher: Cacher) -> None:
    await cacher.create(key("a"), pod("a"))
    first = await listed(cacher)
    assert first.memo is not None
    first.memo.keep("form", "made", 4)
    again = await listed(cacher, resourceVersion="0")
    assert again.entries is first.entries
    assert again.memo is not None
    assert again.memo.get("form") == "made"
    await cacher.create(key("b"), pod("b"))
    later = await listed(cacher)
    assert [entry.key for entry in later.entries] == [key("a"), key("b")]
    assert later.memo is not None
    assert later.memo.get("form") is None
    assert [entry.key for entry in first.entries] == [key("a")]


async def test_its_revision_is_that_of_the_answer(cacher: Cacher) -> None:
    made = await cacher.create(key("a"), pod("a"))
    await listed(cacher)
    cacher._feed._advance(made.revision + 5)  # what other collections do
    assert (await listed(cacher)).revision == made.revision + 5


async def test_a_selector_without_a_name_is_asked_each_time(cacher: Cacher) -> None:
    await cacher.create(key("a"), pod("a", labels={"x": "1"}))
    for value, count in (("1", 1), ("2", 0)):
        found = await cacher.list(PREFIX, ListOptions(matches=labelled(x=value)))
        assert (len(found.entries), found.memo) == (count, None)


async def test_what_is_held_is_bounded(cacher: Cacher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "KEEP_BYTES", 100)
    await cacher.create(key("a"), pod("a"))
    for number in range(recent.KEEP * 3):
        found = await listed(cacher, labelSelector=f"x={number}")
        assert found.memo is not None
        found.memo.keep("form", b"", 60)
        assert len(cacher._recent._lists) <= recent.KEEP
        assert cacher._recent.bytes <= 100


async def test_and_forgotten_after_a_while(cacher: Cacher, monkeypatch: pytest.MonkeyPatch) -> None:
    forget = []
    monkeypatch.setattr(cacher._recent, "_call_later", lambda seconds, then: forget.append(then) or _Timer())
    await listed(cacher)
    assert cacher._recent
    (then,) = forget
    then()
    assert not cacher._recent


class _Timer:
    def cancel(self) -> None:
        """Nothing runs."""


@pytest.mark.parametrize("seed", range(8))
async def test_lists_agree_with_what_was_written(cacher: Cacher, seed: int) -> None:
    chance = random.Random(seed)
    truth: dict[str, tuple[str, str]] = {}
    for _ in range(150):
        name, node, color = f"p{chance.randrange(12):02}", chance.choice("nm"), chance.choice(("red", "blue"))
        if name not in truth:
            await cacher.create(key(name), pod(name, node=node, labels={"color": color}))
            truth[name] = (node, color)
        elif chance.random() < 0.3:
            await cacher.delete(key(name))
            del truth[name]
        else:
            wanted = pod(name, node=node, labels={"color": color})
            await cacher.update(key(name), lambda obj, wanted=wanted: wanted)  # type: ignore[misc]
            truth[name] = (node, color)
        for _ in range(chance.randrange(3)):
            node, color, limit = chance.choice("nm"), chance.choice(("red", "blue")), chance.randrange(1, 5)
            assert await names(cacher) == sorted(truth)
            by_color = await names(cacher, labelSelector=f"color={color}")
            assert by_color == sorted(name for name, held in truth.items() if held[1] == color)
            both = {"labelSelector": f"color!={color}", "fieldSelector": f"spec.nodeName={node}"}
            assert await names(cacher, **both) == sorted(n for n, held in truth.items() if held[0] == node and held[1] != color)
            page = await listed(cacher, limit=str(limit))
            rest = await listed(cacher, **{"continue": page.continue_token}) if page.continue_token else None
            paged = [entry.key for found in (page, rest) if found is not None for entry in found.entries]
            assert paged == [key(name) for name in sorted(truth)]


async def names(cacher: Cacher, **query: str) -> list[str]:
    return [entry.key.rpartition("/")[2] for entry in (await listed(cacher, **query)).entries]
