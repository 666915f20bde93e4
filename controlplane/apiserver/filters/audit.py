"""Writes audit events. Without a policy: one for each write when it has been answered; reads change nothing and are most of
the load. With a policy: what it says, from the moment the user is known."""

import time

from controlplane.apiserver.audit.event import event
from controlplane.apiserver.audit.metrics import AuditMetrics
from controlplane.apiserver.audit.policy import Level, Policy
from controlplane.apiserver.audit.record import Record
from controlplane.apiserver.audit.sinks import Sink
from controlplane.apiserver.filters.interface import Filter
from controlplane.apiserver.filters.long_running import is_long_running
from controlplane.apiserver.wire.call import Call

_LOGGED = frozenset({"create", "update", "patch", "delete", "deletecollection"})


def audit(sink: Sink, policy: Policy | None = None, metrics: AuditMetrics | None = None) -> Filter:
    """Stands after request info and before authentication, so that refused requests are logged too."""
    metrics = metrics or AuditMetrics()

    def step(call: Call) -> None:
        if call.info.verb not in _LOGGED and not (call.info.is_resource and is_long_running(call) and call.info.subresource):
            return

        def finish(code: int) -> None:
            metrics.levels[Level.METADATA.shown] += 1
            metrics.events += 1
            sink.record(event(call, code, "ResponseComplete", time.time()))

        call.finishers.append(finish)

    def step_by_policy(call: Call) -> None:
        def finish(code: int) -> None:
            assert policy is not None
            record = call.record or Record(policy.judge(call.user, call.info))  # without one: refused before it had a user
            metrics.levels[record.verdict.level.shown] += 1
            _write(sink, call, record, code, "ResponseComplete", metrics)

        call.finishers.append(finish)

    return step if policy is None else step_by_policy


def audit_received(sink: Sink, policy: Policy, metrics: AuditMetrics | None = None) -> Filter:
    """Stands between authentication and impersonation: the policy asks about the real user."""
    metrics = metrics or AuditMetrics()

    def step(call: Call) -> None:
        record = Record(policy.judge(call.user, call.info))
        call.record = record
        _write(sink, call, record, 0, "RequestReceived", metrics)
        if is_long_running(call):
            call.on_response = lambda code: _write(sink, call, record, code, "ResponseStarted", metrics)

    return step


def _write(sink: Sink, call: Call, record: Record, code: int, stage: str, metrics: AuditMetrics) -> None:
    verdict = record.verdict
    if verdict.level is Level.NONE or stage in verdict.omitted:
        return
    made = event(call, code, stage, time.time(), verdict.level.shown)
    if stage == "ResponseComplete":
        made.update(record.bodies())
    metrics.events += 1
    sink.record(made)
