"""The status manager: what is sent, in which order, and what happens when it cannot be."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from apimachinery import errors as api_errors
from apimachinery import fieldpath
from client.rest import Client
from component.clock import FakeClock
from node.kubelet.status import StatusManager, difference
from tests.support.pod_workers import Api, pod


def test_only_what_differs_is_sent() -> None:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "t"}
    base = {
        "phase": "Running",
        "podIP": "1",
        "conditions": [ready, {"type": "Foreign", "status": "True"}],
        "qosClass": "Burstable",
    }
    assert difference(base, {"phase": "Running", "podIP": "1", "conditions": [ready]}) == {}
    assert difference(base, {"phase": "Running", "conditions": [ready]}) == {"podIP": None}


def test_conditions_lose_their_stale_reasons() -> None:
    base = {"conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "m"}]}
    changes = difference(base, {"conditions": [{"type": "Ready", "status": "True"}]})
    assert changes == {"conditions": [{"type": "Ready", "status": "True", "reason": None, "message": None}]}


def test_address_lists_are_replaced_not_merged() -> None:
    changes = difference({"podIPs": [{"ip": "1"}]}, {"podIPs": [{"ip": "2"}]})
    assert changes == {"podIPs": [{"$patch": "replace"}, {"ip": "2"}]}
    assert difference({}, {"podIPs": [{"ip": "2"}]}) == {"podIPs": [{"ip": "2"}]}


@asynccontextmanager
async def _running(api: Api, clock: FakeClock) -> AsyncIterator[StatusManager]:
    manager = StatusManager(cast("Client", api), clock)
    task = asyncio.ensure_future(manager.run())
    await clock.settle()
    yield manager
    task.cancel()
    await asyncio.wait({task})


async def test_the_newest_status_wins() -> None:
    api, clock = Api(), FakeClock()
    async with _running(api, clock) as manager:
        for phase in ("Pending", "Running", "Succeeded"):
            manager.set(pod(), {"phase": phase})
        await clock.settle()
        assert api.patches == [("web", {"phase": "Succeeded"})]
        assert not manager.set(pod(), {"phase": "Succeeded"})
        await clock.settle()
        assert len(api.patches) == 1


async def test_a_deleted_pod_goes_after_its_last_status() -> None:
    api, clock = Api(), FakeClock()
    async with _running(api, clock) as manager:
        manager.set(pod(), {"phase": "Failed"})
        manager.finalize(pod())
        await clock.settle()
        assert api.patches == [("web", {"phase": "Failed"})]
        assert api.deleted == ["uid-web"]
        assert manager.get("uid-web") is None


class _Refusing(Api):
    error: Exception | None = None

    async def patch(self, *arguments: Any, **more: Any) -> dict[str, Any]:
        if self.error is not None:
            raise self.error
        return await super().patch(*arguments, **more)


async def test_what_could_not_be_sent_is_sent_again() -> None:
    api, clock = _Refusing(), FakeClock()
    api.error = api_errors.internal("down")
    async with _running(api, clock) as manager:
        manager.set(pod(), {"phase": "Running"})
        await clock.settle()
        manager.set(pod(), {"phase": "Succeeded"})
        api.error = None
        await clock.advance(5)
        assert api.patches == [("web", {"phase": "Succeeded"})]


ANOTHER = fieldpath.invalid("metadata.uid", "uid-web", "field is immutable")


@pytest.mark.parametrize("error", [api_errors.not_found("pods", "web"), api_errors.invalid("Pod", "web", [ANOTHER])])
async def test_a_pod_that_is_gone_is_forgotten(error: api_errors.StatusError) -> None:
    api, clock = _Refusing(), FakeClock()
    api.error = error
    async with _running(api, clock) as manager:
        manager.set(pod(), {"phase": "Running"})
        await clock.settle()
        assert manager.get("uid-web") is None


async def test_somebody_elses_status_is_put_right() -> None:
    api, clock = Api(), FakeClock()
    async with _running(api, clock) as manager:
        manager.set(pod(), {"phase": "Running"})
        await clock.settle()
        api.patches.clear()
        manager.reconcile({**pod(), "status": {"phase": "Running", "other": 1}})
        manager.reconcile({**pod(), "status": {"phase": "Unknown"}})
        await clock.settle()
        assert api.patches == [("web", {"phase": "Running"})]
