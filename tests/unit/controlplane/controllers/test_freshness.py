from client.lister import Lister
from client.store import Store
from component.clock import FakeClock
from controlplane.controllers.lib.freshness import Written


async def test_waits_for_the_cache_but_not_for_ever() -> None:
    store, clock = Store(), FakeClock()
    written = Written(Lister(store), clock)
    made = {"metadata": {"namespace": "ns", "name": "a", "resourceVersion": "7"}}
    assert written.seen("ns/web")
    written.note("ns/web", made)
    assert not written.seen("ns/web")
    store.put("ns/a", {"metadata": {"namespace": "ns", "name": "a", "resourceVersion": "6"}})
    assert not written.seen("ns/web")
    store.put("ns/a", made)
    assert written.seen("ns/web")
    written.note("ns/web", {"metadata": {"namespace": "ns", "name": "gone", "resourceVersion": "8"}})
    assert not written.seen("ns/web")
    await clock.advance(6)
    assert written.seen("ns/web")
