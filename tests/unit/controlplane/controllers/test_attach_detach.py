"""What is attached and detached on one node."""

from typing import Any

from controlplane.controllers.attach_detach import Situation, plan
from tests.support.storage import make_volume

POD = {"metadata": {"name": "p", "namespace": "default"}}


def volume(**more: Any) -> dict[str, Any]:
    return make_volume(csi={"driver": "d", "volumeHandle": "h"}, **more)


def held(*, attached: bool = True) -> tuple[dict[str, Any], str]:
    return {"metadata": {"name": "csi-1"}, "status": {"attached": attached}}, "kubernetes.io/csi/d^h"


IN_USE = frozenset({"kubernetes.io/csi/d^h"})


def test_attach_what_is_wanted_and_tell_the_node_once_it_is() -> None:
    wanted = {"v": (volume(), [POD])}
    assert list(plan(Situation(wanted, {}, frozenset())).attach) == ["v"]
    waiting = plan(Situation(wanted, {"v": held(attached=False)}, frozenset()))
    assert (waiting.attach, waiting.report, waiting.detach) == ({}, [], [])
    assert plan(Situation(wanted, {"v": held()}, frozenset())).report == [{"name": "kubernetes.io/csi/d^h", "devicePath": ""}]


def test_nothing_is_detached_while_the_kubelet_has_it_mounted() -> None:
    assert plan(Situation({}, {"v": held()}, IN_USE)).detach == []
    done = plan(Situation({}, {"v": held()}, frozenset()))
    assert (len(done.detach), done.report) == (1, [])


def test_an_unreachable_node_is_waited_for_and_one_out_of_service_is_not() -> None:
    early = plan(Situation({}, {"v": held()}, IN_USE, unreachable_for=100))
    assert (early.detach, early.again) == ([], 260)
    assert len(plan(Situation({}, {"v": held()}, IN_USE, unreachable_for=400)).detach) == 1
    assert len(plan(Situation({}, {"v": held()}, IN_USE, out_of_service=True)).detach) == 1


def test_a_volume_of_one_node_waits_for_the_other_to_let_go() -> None:
    apart = frozenset({"v"})
    refused = plan(Situation({"v": (volume(), [POD])}, {}, frozenset(), apart))
    assert (list(refused.refused), refused.attach) == (["v"], {})
    assert refused.again
    shared = {"v": (volume(accessModes=["ReadWriteMany"]), [POD])}
    assert list(plan(Situation(shared, {}, frozenset(), apart)).attach) == ["v"]
