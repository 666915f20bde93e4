import pytest

from apimachinery.labels import from_map
from apimachinery.meta import Object
from controlplane.controllers.lib.claims import Claim, decide


def obj(uid: str = "", *, owner: str = "", app: str = "web", deleting: bool = False) -> Object:
    metadata: Object = {"uid": uid, "labels": {"app": app}}
    if owner:
        metadata["ownerReferences"] = [{"uid": owner, "controller": True}]
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"metadata": metadata}


@pytest.mark.parametrize(
    ("owner", "held", "expected"),
    [
        pytest.param(obj("me"), obj(owner="me"), Claim.KEEP, id="mine"),
        pytest.param(obj("me"), obj(owner="me", app="other"), Claim.RELEASE, id="mine-no-more"),
        pytest.param(obj("me", deleting=True), obj(owner="me", app="other"), Claim.IGNORE, id="a-deleted-owner-releases-nothing"),
        pytest.param(obj("me"), obj(owner="you"), Claim.IGNORE, id="never-stolen"),
        pytest.param(obj("me"), obj(), Claim.ADOPT, id="orphan"),
        pytest.param(obj("me"), obj(app="other"), Claim.IGNORE, id="stranger"),
        pytest.param(obj("me", deleting=True), obj(), Claim.IGNORE, id="a-deleted-owner-adopts-nothing"),
        pytest.param(obj("me"), obj(deleting=True), Claim.IGNORE, id="a-dying-orphan"),
    ],
)
def test_decide(owner: Object, held: Object, expected: Claim) -> None:
    assert decide(owner, from_map({"app": "web"}), held) is expected
