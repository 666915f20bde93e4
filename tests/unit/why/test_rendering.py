"""Explanations as text."""

import json

from why import rendering
from why.cause import Cause, Explanation, State

EVIL = "log: \x1b]0;title\x07 \x1b[2J\x9b31m\x7f\r\x08é"


def test_what_others_wrote_commands_no_terminal() -> None:
    cause = Cause(says=EVIL, evidence=(EVIL,), step=EVIL, causes=(Cause(says=EVIL),))
    answer = Explanation("pod/p", "default", State.UNWELL, EVIL, (cause,))
    text = rendering.tree(answer)
    assert not [each for each in text if each != "\n" and not each.isprintable()]
    assert text.count("^[]0;title^G ^[[2J\\x9b31m^? ^Hé") == 5
    assert json.loads(json.dumps(rendering.as_json(answer)))["summary"] == EVIL
