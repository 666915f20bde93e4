"""Writes the audit event when a call has been answered. Reads are not logged: they change nothing and are most of the load."""

import time

from controlplane.apiserver.audit.event import event
from controlplane.apiserver.audit.sinks import Sink
from controlplane.apiserver.filters.in_flight import is_long_running
from controlplane.apiserver.filters.interface import Filter
from controlplane.apiserver.wire.call import Call

_LOGGED = frozenset({"create", "update", "patch", "delete", "deletecollection"})


def audit(sink: Sink) -> Filter:
    """Stands after request info and before authentication, so that refused requests are logged too."""

    def step(call: Call) -> None:
        if call.info.verb not in _LOGGED and not (call.info.is_resource and is_long_running(call) and call.info.subresource):
            return

        def finish(code: int) -> None:
            sink.record(event(call, code, "ResponseComplete", time.time()))

        call.finishers.append(finish)

    return step
