"""Where a server's audit events go, and what decides which there are."""

import contextlib
from typing import Any

from controlplane.apiserver.admission.configuration import read
from controlplane.apiserver.audit.metrics import AuditMetrics
from controlplane.apiserver.audit.policy import Policy, policy_from
from controlplane.apiserver.audit.sinks import FileSink, Sink
from controlplane.apiserver.config import Audit


class Both:
    """Every event to each of several sinks, which count for themselves what they lose."""

    dropped = 0

    def __init__(self, sinks: list[Sink]) -> None:
        self._sinks = sinks

    def record(self, event: dict[str, Any]) -> None:
        for sink in self._sinks:
            sink.record(event)


async def auditing(config: Audit, stack: contextlib.AsyncExitStack) -> tuple[Sink | None, Policy | None, AuditMetrics]:
    """The sink, running as long as ``stack`` is open (None when events go nowhere), the policy of the flags' file, and counts."""
    policy = policy_from(read(config.policy)) if config.policy is not None else None
    sinks: list[tuple[str, Sink]] = []
    if config.path is not None:
        file = FileSink(config.path, config.max_megabytes << 20, config.backups, config.days, config.log_bounds)
        sinks.append(("log", await stack.enter_async_context(file.running())))
    if config.webhook is not None:
        from controlplane.apiserver.audit.webhook import WebhookSink  # brings an HTTP client, which most servers need not

        sizes = {"size": config.webhook_batch, "buffer": config.webhook_buffer}
        hook = WebhookSink(config.webhook, config.webhook_wait, **sizes, bounds=config.webhook_bounds)
        sinks.append(("webhook", await stack.enter_async_context(hook.running())))
    members = [sink for _, sink in sinks]
    return (Both(members) if len(members) > 1 else next(iter(members), None)), policy, AuditMetrics(sinks)
