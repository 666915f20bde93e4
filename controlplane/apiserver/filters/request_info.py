"""First filter: what does this request ask for, and under which audit id is it known?"""

import uuid

from controlplane.apiserver.wire.call import Call
from controlplane.apiserver.wire.info import parse

_MAX_AUDIT_ID = 64


def request_info(call: Call) -> None:
    """Raises a 400 for paths with dot segments, encoded slashes or control characters."""
    given = call.headers.get("Audit-ID", "")
    call.audit_id = given if 0 < len(given) <= _MAX_AUDIT_ID and given.isprintable() else str(uuid.uuid4())
    call.info = parse(call.method, call.path, call.query)
