"""Heavy work is done one piece in each turn of the loop, and who has gone holds up nobody."""

import asyncio

from controlplane.apiserver.wire.turns import take_turn


async def test_one_piece_in_each_turn() -> None:
    pieces: list[str] = []

    async def heavy(name: str) -> None:
        for _ in range(3):
            await take_turn()
            pieces.append(name)

    async def watch_turns() -> None:
        for _ in range(40):
            pieces.append("-")
            await asyncio.sleep(0)

    await asyncio.gather(watch_turns(), *(heavy(name) for name in "abc"))
    text = "".join(pieces)
    assert sorted(text.replace("-", "")) == list("aaabbbccc")
    assert all(len(between) <= 1 for between in text.split("-"))


async def test_alone_one_goes_on_at_once_and_the_cancelled_are_skipped() -> None:
    await take_turn()
    gone, waiting = asyncio.ensure_future(take_turn()), asyncio.ensure_future(take_turn())
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.wait_for(waiting, 1)
