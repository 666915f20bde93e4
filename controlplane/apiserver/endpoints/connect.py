"""Subresources that are no object: log, exec, attach, portforward of pods, and proxy of pods, services and nodes.

:func:`endpoints` makes the table that ``assembly`` hands to ``routing``. Pods live on nodes, so each request becomes one to
the kubelet there (``connect_kubelet.py``), or to the pod or service itself (``connect_proxy.py``).
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from controlplane.apiserver.admission.interface import Lookup
from controlplane.apiserver.endpoints import connect_log, connect_proxy, connect_streams
from controlplane.apiserver.endpoints.connect_kubelet import Kubelets
from controlplane.apiserver.wire.call import Call
from controlplane.apiserver.wire.info import is_true
from controlplane.apiserver.wire.reply import Answer

Endpoint = Callable[[Call], Awaitable[Answer]]
ANY = "*"


class OpenStreams:
    """Streams without an end of their own. A server that drains cuts them off: waiting for a shell would take for ever."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[object]] = set()

    def close_all(self) -> None:
        for task in self._tasks:
            task.cancel()

    def tracked(self, endpoint: Endpoint, which: Callable[[Call], bool] = lambda call: True) -> Endpoint:
        async def run(call: Call) -> Answer:
            task = asyncio.current_task()
            if task is None or not which(call):
                return await endpoint(call)
            self._tasks.add(task)
            try:
                return await endpoint(call)
            finally:
                self._tasks.discard(task)

        return run


def _upgrades(call: Call) -> bool:
    return "Upgrade" in call.headers


def endpoints(
    lookup: Lookup, kubelets: Kubelets, may_create: connect_streams.MayCreate, open_streams: OpenStreams
) -> Mapping[tuple[str, str], Mapping[tuple[str, str], Endpoint]]:
    """By (group, resource), then by (subresource, verb)."""
    log = open_streams.tracked(connect_log.endpoint(lookup, kubelets), lambda call: is_true(call.query.get("follow")))
    streams = connect_streams.Streams(lookup, kubelets, may_create)
    proxy = connect_proxy.Proxy(lookup, kubelets, may_create)
    pods: dict[tuple[str, str], Endpoint] = {("log", "get"): log, ("proxy", ANY): open_streams.tracked(proxy.pods, _upgrades)}
    for name, endpoint in {"exec": streams.exec, "attach": streams.attach, "portforward": streams.port_forward}.items():
        pods[(name, "get")] = pods[(name, "create")] = open_streams.tracked(endpoint)
    return {
        ("", "pods"): pods,
        ("", "services"): {("proxy", ANY): open_streams.tracked(proxy.services, _upgrades)},
        ("", "nodes"): {("proxy", ANY): open_streams.tracked(proxy.nodes, _upgrades)},
    }
