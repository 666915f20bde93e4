"""The plugin's own decisions; what it does with a server is in ``tests/integration/scheduler/test_devices.py``."""

from collections.abc import Mapping
from typing import Any

import pytest

from apimachinery.meta import Object
from component.clock import FakeClock
from component.features import from_flag
from controlplane.scheduler.cache import Cache
from controlplane.scheduler.devices.pools import Catalogue
from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.devices import NoDevices
from controlplane.scheduler.framework.events import Action, ClusterEvent, On
from controlplane.scheduler.framework.status import SKIP
from controlplane.scheduler.framework.types import NodeInfo, PodInfo
from controlplane.scheduler.plugins.dynamic_resources import NOWHERE, TOO_LONG, DynamicResources, preference
from tests.support.scheduling import make_pod
from tests.unit.controlplane.scheduler.devices.made import CLASSES, NODE, choice, claim, device, either, exactly, held, slice_of


class Held(NoDevices):
    """Claims of one namespace, and one pool of devices. Time passes with every look at the devices, if ``clock`` is given."""

    def __init__(self, *listed: Object, clock: FakeClock | None = None) -> None:
        self._claims = {each["metadata"]["name"]: each for each in listed}
        self._clock = clock

    def claim(self, namespace: str, name: str) -> Object | None:
        return self._claims.get(name)

    def classes(self) -> Mapping[str, Object]:
        return CLASSES

    def catalogue(self) -> Catalogue:
        return Catalogue([slice_of(device("gpu-0"), device("gpu-1"))])


def using(*names: str, **status: Any) -> PodInfo:
    entries = [{"name": name, "resourceClaimName": name} for name in names]
    return PodInfo({**make_pod(resourceClaims=entries), "status": status})


def here() -> NodeInfo:
    info = NodeInfo("here")
    info.set_node(NODE)
    return info


def verdict(plugin: DynamicResources, pod: PodInfo) -> str:
    """The first refusal; empty if the pod may go to the node."""
    state = CycleState()
    status, _ = plugin.pre_filter(state, pod, Cache())
    if status is None:
        status = plugin.filter(state, pod, here())
    return status.message if status is not None else ""


def test_pods_without_claims_are_none_of_its_business() -> None:
    status, _ = DynamicResources(Held(), FakeClock()).pre_filter(CycleState(), PodInfo(make_pod()), Cache())
    assert status is SKIP


FULL = {"reservedFor": [{"resource": "pods", "name": str(number), "uid": str(number)} for number in range(256)]}


@pytest.mark.parametrize(
    ("listed", "reason"),
    [
        pytest.param([claim(exactly(), name="c")], "", id="fits"),
        pytest.param([claim(exactly(count=3), name="c")], NOWHERE, id="too few devices"),
        pytest.param([], 'resourceclaim.resource.k8s.io "c" not found', id="no claim"),
        pytest.param([claim(exactly(device_class="x"), name="c")], "request it: device class x does not exist", id="no class"),
        pytest.param(
            [{**claim(exactly(), name="c"), "status": {**held("gpu-0")["status"], **FULL}}], "resourceclaim in use", id="in use"
        ),
    ],
)
def test_verdicts(listed: list[Object], reason: str) -> None:
    assert verdict(DynamicResources(Held(*listed), FakeClock()), using("c")) == reason


def test_a_search_that_takes_too_long_ends() -> None:
    class Slow(FakeClock):
        def monotonic(self) -> float:
            self.jump(0)
            self._elapsed += 4  # each look at the clock
            return super().monotonic()

    many = claim(exactly("a", count=2), exactly("b", count=2), name="c")
    assert verdict(DynamicResources(Held(many), Slow()), using("c")) == TOO_LONG
    endless = from_flag({"DRASchedulerFilterTimeout": "false"})
    assert verdict(DynamicResources(Held(many), Slow(), endless), using("c")) == NOWHERE


@pytest.mark.parametrize(
    ("before", "now", "helps"),
    [
        pytest.param(None, claim(exactly(), name="mine"), True, id="its claim has come"),
        pytest.param(None, claim(exactly(), name="other"), False, id="somebody's has"),
        pytest.param(held("gpu-0"), {**held("gpu-0"), "status": {}}, True, id="a device is free"),
        pytest.param(held("gpu-0"), None, True, id="a claim went with its device"),
        pytest.param(claim(exactly(), name="mine"), claim(exactly(), name="mine"), False, id="nothing that matters"),
    ],
)
def test_which_changes_of_claims_wake_a_pod(before: Object | None, now: Object | None, helps: bool) -> None:
    action = Action.ADD if before is None else Action.DELETE if now is None else Action.UPDATE_OTHER
    cures = DynamicResources(Held(), FakeClock()).cures()
    event = ClusterEvent(On.RESOURCE_CLAIM, action, before, now)
    assert any(cure.applies(using("mine"), event) for cure in cures) is helps


def test_preference_falls_from_alternative_to_alternative() -> None:
    wanted = claim(either(choice("a"), choice("b"), name="x"), either(choice("a"), choice("b"), name="y"), exactly("z"))
    results = [{"request": name} for name in ("x/a", "y/b", "z")]
    assert preference(wanted, {"devices": {"results": results}}) == 8 + 7
