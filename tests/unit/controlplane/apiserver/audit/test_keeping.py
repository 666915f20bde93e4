"""What an audit policy makes the server hold of an answer: nothing, unless it asks for answers."""

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from controlplane.apiserver import chain
from controlplane.apiserver.audit.policy import Level, Verdict
from controlplane.apiserver.audit.record import Record
from controlplane.apiserver.wire.pieces import Pieces, Stream
from controlplane.apiserver.wire.reply import Reply


@pytest.mark.parametrize(
    ("level", "kept"), [(Level.METADATA, b""), (Level.REQUEST, b""), (Level.REQUEST_RESPONSE, b'{"items":[]}')]
)
async def test_a_list_is_put_together_only_for_who_wants_answers(level: Level, kept: bytes) -> None:
    call = SimpleNamespace(record=Record(Verdict(level)), on_response=None)
    await chain._keep(cast("Any", call), Reply(200, Pieces(b'{"items":[', (b"]", b"}"), 2)))
    assert call.record.response == kept


async def test_an_answer_that_is_made_while_it_is_sent_is_kept_and_sent() -> None:
    async def rest() -> AsyncIterator[bytes]:
        yield b"]"
        yield b"}"

    call = SimpleNamespace(record=Record(Verdict(Level.REQUEST_RESPONSE)), on_response=None)
    reply = Reply(200, Stream(b'{"items":[', rest()))
    await chain._keep(cast("Any", call), reply)
    assert call.record.response == reply.body == b'{"items":[]}'
