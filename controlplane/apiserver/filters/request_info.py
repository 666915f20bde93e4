"""First filter: what does this request ask for, and under which audit id is it known?"""

import os

from controlplane.apiserver.wire.call import Call
from controlplane.apiserver.wire.info import parse

_MAX_AUDIT_ID = 64


def request_info(call: Call) -> None:
    """Raises a 400 for paths with dot segments, encoded slashes or control characters."""
    given = call.headers.get("Audit-ID", "")
    call.audit_id = given if 0 < len(given) <= _MAX_AUDIT_ID and given.isprintable() else _new_id()
    call.info = parse(call.method, call.path, call.query)


def _new_id() -> str:
    """A random UUID (version 4), without the object around it that ``uuid`` makes."""
    digits = os.urandom(16).hex()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-{digits[20:]}"
