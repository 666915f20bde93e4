from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.controllers.ttl_after_finished import expiry

ENDED = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T12:00:00Z"}


def job(*conditions: dict[str, Any], deleted: bool = False, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "j", "namespace": "ns", **({"deletionTimestamp": "2026-01-01T12:00:00Z"} if deleted else {})}
    return {"metadata": metadata, "spec": spec, "status": {"conditions": list(conditions)}}


@pytest.mark.parametrize(
    ("of", "wanted"),
    [
        pytest.param(job(ENDED), None, id="for-ever"),
        pytest.param(job(ttlSecondsAfterFinished=0), None, id="has-not-ended"),
        pytest.param(job({**ENDED, "status": "False"}, ttlSecondsAfterFinished=0), None, id="nor-this-one"),
        pytest.param(job(ENDED, ttlSecondsAfterFinished=0), "12:00:00", id="at-once"),
        pytest.param(job({**ENDED, "type": "Failed"}, ttlSecondsAfterFinished=90), "12:01:30", id="failed"),
        pytest.param(job(ENDED, ttlSecondsAfterFinished=0, deleted=True), None, id="goes-already"),
    ],
)
def test_expiry(of: dict[str, Any], wanted: str | None) -> None:
    found = expiry(of)
    assert (found and found.strftime("%H:%M:%S")) == wanted
    assert found is None or found.date() == datetime(2026, 1, 1, tzinfo=UTC).date()


def test_an_end_without_a_time() -> None:
    with pytest.raises(ValueError, match="unable to find the time when the Job ns/j finished"):
        expiry(job({"type": "Complete", "status": "True"}, ttlSecondsAfterFinished=0))
