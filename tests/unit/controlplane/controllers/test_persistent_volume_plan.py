"""What the binder does next, for every state in which it may find a claim or a volume."""

from pathlib import Path
from typing import Any

import pytest

from apimachinery.objects import volumes
from controlplane.controllers.persistentvolume import plan, reclaim
from controlplane.controllers.persistentvolume.plan import Do, On
from tests.support.storage import make_claim, make_volume

BOUND = {volumes.BIND_COMPLETED: "yes"}


def around(named: dict[str, Any] | None = None, *offered: dict[str, Any], **more: Any) -> plan.Around:
    return plan.Around(named, lambda: offered, **more)


@pytest.mark.parametrize(
    ("claim", "known", "do", "reason"),
    [
        pytest.param(make_claim(), around(None, make_volume(phase="Available")), Do.BIND, "", id="match"),
        pytest.param(make_claim(), around(), Do.WAIT, "FailedBinding", id="nothing-and-no-class"),
        pytest.param(make_claim(storage_class="fast"), around(), Do.PROVISION, "", id="class"),
        pytest.param(make_claim(storage_class=None), around(default_class="fast"), Do.SET_CLASS, "", id="default-class"),
        pytest.param(make_claim(), around(default_class="fast"), Do.WAIT, "FailedBinding", id="asks-for-no-class"),
        pytest.param(make_claim(storage_class="late"), around(delayed=True), Do.WAIT, "WaitForFirstConsumer", id="delayed"),
        pytest.param(
            make_claim(storage_class="late"),
            around(delayed=True, pods=[{"metadata": {"name": "p"}, "spec": {}}]),
            Do.WAIT,
            "WaitForPodScheduled",
            id="delayed-and-a-pod-waits",
        ),
        pytest.param(
            make_claim(storage_class="late", annotations={volumes.SELECTED_NODE: "a"}),
            around(delayed=True),
            Do.PROVISION,
            "",
            id="delayed-and-a-node-is-known",
        ),
        pytest.param(make_claim(volumeName="v"), around(), Do.WAIT, "", id="named-volume-is-not-there"),
        pytest.param(make_claim(volumeName="v"), around(make_volume()), Do.BIND, "", id="named-volume-is-free"),
        pytest.param(make_claim(volumeName="v"), around(make_volume(size="1Mi")), Do.WAIT, "VolumeMismatch", id="too-small"),
        pytest.param(
            make_claim(volumeName="v"), around(make_volume(claim=make_claim("other"))), Do.WAIT, "FailedBinding", id="taken"
        ),
        pytest.param(make_claim(volumeName="v", annotations=BOUND), around(), Do.LOSE, "ClaimLost", id="volume-is-gone"),
        pytest.param(make_claim(annotations=BOUND), around(), Do.LOSE, "ClaimLost", id="reference-is-gone"),
        pytest.param(
            make_claim(volumeName="v", annotations=BOUND, uid="1"),
            around(make_volume(claim=make_claim("other", uid="2"))),
            Do.LOSE,
            "ClaimMisbound",
            id="two-claims",
        ),
        pytest.param(
            make_claim(volumeName="v", annotations=BOUND, uid="1"),
            around(make_volume(claim=make_claim(uid="1"))),
            Do.BIND,
            "",
            id="bound-and-well",
        ),
    ],
)  # fmt: skip
def test_claims(claim: dict[str, Any], known: plan.Around, do: Do, reason: str) -> None:
    step = plan.next_for_claim(claim, known)
    assert step.do is do
    assert (step.told.reason if step.told else "") == reason


MINE = make_claim(uid="1")


@pytest.mark.parametrize(
    ("volume", "claim", "phase", "then"),
    [
        pytest.param(make_volume(), None, "Available", On.NOTHING, id="free"),
        pytest.param(make_volume(claim=make_claim()), None, "Available", On.NOTHING, id="reserved"),
        pytest.param(make_volume(claim=MINE), None, "Released", On.RECLAIM, id="claim-gone"),
        pytest.param(make_volume(claim=MINE, phase="Failed"), None, "", On.RECLAIM, id="claim-gone-and-failed-before"),
        pytest.param(make_volume(claim=MINE), make_claim(uid="2"), "Released", On.RECLAIM, id="claim-made-again"),
        pytest.param(make_volume(claim=MINE), MINE, "", On.LOOK_AT_CLAIM, id="half-bound"),
        pytest.param(make_volume(claim=MINE), {**MINE, "spec": {"volumeName": "v"}}, "Bound", On.NOTHING, id="bound"),
        pytest.param(make_volume(claim=MINE), {**MINE, "spec": {"volumeName": "w"}}, "", On.UNBIND, id="claim-got-another"),
        pytest.param(
            make_volume(claim=MINE, annotations={volumes.PROVISIONED_BY: "x"}, persistentVolumeReclaimPolicy="Delete"),
            {**MINE, "spec": {"volumeName": "w"}},
            "Released",
            On.RECLAIM,
            id="made-for-a-claim-that-got-another",
        ),
        pytest.param(make_volume(claim=MINE, volumeMode="Block"), MINE, "", On.NOTHING, id="wrong-mode"),
    ],
)  # fmt: skip
def test_volumes(volume: dict[str, Any], claim: dict[str, Any] | None, phase: str, then: On) -> None:
    step = plan.next_for_volume(volume, claim)
    assert (step.phase, step.then) == (phase, then)


def test_binding_is_written_once_and_undone() -> None:
    volume, claim = make_volume(), make_claim(uid="1")
    half = plan.volume_for_claim(volume, claim)
    assert half is not None
    assert half["metadata"]["annotations"] == {volumes.BOUND_BY_CONTROLLER: "yes"}
    assert plan.volume_for_claim(half, claim) is None
    other = plan.claim_for_volume(claim, half)
    assert other is not None
    assert plan.claim_for_volume(other, half) is None
    assert plan.unbound(half)["spec"] == volume["spec"]
    reserved = make_volume(claim=make_claim())
    filled = plan.volume_for_claim(reserved, claim)
    assert filled is not None
    assert plan.unbound(filled)["spec"]["claimRef"].keys() == {"kind", "apiVersion", "namespace", "name"}


def test_a_larger_volume_shows_its_own_size_but_never_takes_back_a_resize() -> None:
    volume = make_volume(size="5Gi")
    assert plan.claim_status(make_claim(phase="Pending"), volume)["capacity"] == {"storage": "5Gi"}
    bound = {**make_claim(), "status": {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "6Gi"}}}
    assert plan.claim_status(bound, volume) == {}


@pytest.mark.parametrize("path", ["/var/lib/data", "/tmp", "/tmp/../etc", "/tmp/", ""])
def test_only_below_tmp_is_anything_deleted(path: str) -> None:
    with pytest.raises(ValueError, match="host_path deleter only supports /tmp/"):
        reclaim.delete_directory(path)


def test_the_recycler_pod_gets_time_by_size_and_keeps_the_template() -> None:
    small, large = make_volume("v", "1Gi"), make_volume("v", "10Gi")
    assert reclaim.recycler_pod(small)["spec"]["activeDeadlineSeconds"] == 60
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"volumes": [{"name": "x"}, {"name": "y"}], "containers": []}}
    pod = reclaim.recycler_pod(large, template)
    assert pod["metadata"] == {"labels": {"a": "b"}, "name": "recycler-for-v", "namespace": "default"}
    assert pod["spec"]["volumes"] == [{"name": "x", "hostPath": {"path": "/tmp/volumes/v"}}, {"name": "y"}]
    assert pod["spec"]["activeDeadlineSeconds"] == 300


def test_no_link_leads_a_deletion_out_of_tmp(tmp_path: Path) -> None:
    assert str(tmp_path).startswith("/tmp/")
    (tmp_path / "way").symlink_to("/var")
    with pytest.raises(ValueError, match="host_path deleter only supports /tmp/"):
        reclaim.delete_directory(f"{tmp_path}/way/nowhere")
    (tmp_path / "mine/deep").mkdir(parents=True)
    (tmp_path / "mine/link").symlink_to("/var")
    reclaim.delete_directory(f"{tmp_path}/mine")
    assert not (tmp_path / "mine").exists()
    reclaim.delete_directory(f"{tmp_path}/way")  # the link itself
    assert Path("/var").is_dir()
