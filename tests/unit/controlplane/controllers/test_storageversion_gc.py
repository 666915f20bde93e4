from datetime import UTC, datetime

from apimachinery.meta import Object, get_condition
from controlplane.controllers.storageversion_gc import servers_of, without

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def version(**encodings: str) -> Object:
    reported = [
        {"apiServerID": server, "encodingVersion": encoding, "decodableVersions": [encoding]}
        for server, encoding in encodings.items()
    ]
    return {"metadata": {"name": "apps.deployments"}, "status": {"storageVersions": reported}}


def test_those_that_are_left_may_agree_at_last() -> None:
    found = without(version(a="v1", b="v1beta1", c="v1"), {"b"}, NOW)
    assert found is not None
    assert servers_of(found) == ["a", "c"]
    assert found["status"]["commonEncodingVersion"] == "v1"
    assert (get_condition(found, "AllEncodingVersionsEqual") or {})["reason"] == "CommonEncodingVersionSet"


def test_or_not() -> None:
    before = version(a="v1", b="v2", c="v1")
    before["status"]["commonEncodingVersion"] = "v1"
    found = without(before, {"c"}, NOW)
    assert found is not None
    assert "commonEncodingVersion" not in found["status"]
    assert (get_condition(found, "AllEncodingVersionsEqual") or {})["message"] == "Common encoding version unset"


def test_nobody_is_left() -> None:
    assert without(version(a="v1"), {"a"}, NOW) is None
