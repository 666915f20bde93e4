from apimachinery import labels
from controlplane.controllers.horizontalpodautoscaler.selectors import Selectors

WEB = {"metadata": {"name": "p", "labels": {"app": "web", "tier": "front"}}}


def test_who_selects_a_pod() -> None:
    held = Selectors()
    for key, selector in {
        "ns/one": "app=web",
        "ns/two": "tier in (front),app",
        "ns/three": "app notin (db)",
        "ns/four": "app=db",
        "other/five": "app=web",
    }.items():
        held.put(key, labels.parse(selector))
    assert held.selecting("ns", [WEB, WEB]) == ["ns/one", "ns/three", "ns/two"]
    assert held.selecting("ns", []) == []
    held.put("ns/one", labels.parse("app=db"))
    held.drop("ns/three")
    held.drop("ns/three")
    assert held.selecting("ns", [WEB]) == ["ns/two"]
