"""What an audit policy makes the server hold of an answer: nothing, unless it asks for answers."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from controlplane.apiserver import chain
from controlplane.apiserver.audit.policy import Level, Verdict
from controlplane.apiserver.audit.record import Record
from controlplane.apiserver.wire.pieces import Pieces
from controlplane.apiserver.wire.reply import Reply


@pytest.mark.parametrize(
    ("level", "kept"), [(Level.METADATA, b""), (Level.REQUEST, b""), (Level.REQUEST_RESPONSE, b'{"items":[]}')]
)
def test_a_list_is_put_together_only_for_who_wants_answers(level: Level, kept: bytes) -> None:
    call = SimpleNamespace(record=Record(Verdict(level)), on_response=None)
    chain._keep(cast("Any", call), Reply(200, Pieces(b'{"items":[', (b"]", b"}"), 2)))
    assert call.record.response == kept
