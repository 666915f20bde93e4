"""What was written counts until the informer shows it, or something later."""

from client.assumed import Assumed
from client.informer import Informer


def volume(version: int, **spec: object) -> dict[str, object]:
    return {"metadata": {"name": "v", "uid": "1", "resourceVersion": str(version)}, "spec": spec}


async def test_an_intention_holds_until_it_is_seen_or_dropped() -> None:
    informer = Informer("volumes")
    await informer.replace([volume(5)])
    held = Assumed(informer)
    held.intend(volume(5, claim="a"))
    assert held.get("v") == volume(5, claim="a")
    assert held.list() == [volume(5, claim="a")]
    held.wrote(volume(7, claim="a", more=1))
    await informer.apply([("MODIFIED", volume(6))])
    assert held.get("v") == volume(7, claim="a", more=1)
    await informer.apply([("MODIFIED", volume(7, claim="a", more=1)), ("MODIFIED", volume(8))])
    assert held.get("v") == volume(8)
    held.intend(volume(8, claim="b"))
    held.drop("v")
    assert held.get("v") == volume(8)


async def test_a_late_answer_does_not_hide_what_came_after_it() -> None:
    informer = Informer("volumes")
    await informer.replace([volume(9)])
    held = Assumed(informer)
    held.wrote(volume(7, claim="a"))
    assert held.get("v") == volume(9)
    held.intend(volume(9, claim="b"))
    await informer.apply([("DELETED", volume(10))])
    assert held.get("v") is None
