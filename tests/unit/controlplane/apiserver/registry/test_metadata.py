"""What is wrong with metadata, in upstream's words."""

from typing import Any

import pytest

from controlplane.apiserver.registry import metadata

GOOD: dict[str, Any] = {"name": "a", "namespace": "n"}
CASES = [
    pytest.param({}, None, id="good"),
    pytest.param({"name": ""}, "metadata.name: Required value: name or generateName is required", id="no-name"),
    pytest.param({"name": "A"}, 'metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain', id="upper-case"),
    pytest.param({"generateName": "A-"}, 'metadata.generateName: Invalid value: "A-"', id="prefix"),
    pytest.param({"generateName": "a-"}, None, id="good-prefix"),
    pytest.param({"namespace": ""}, "metadata.namespace: Required value", id="no-namespace"),
    pytest.param({"labels": {"a": "b c"}}, 'metadata.labels: Invalid value: "b c"', id="label-value"),
    pytest.param({"annotations": {"a": "x" * 300_000}}, "metadata.annotations: Too long", id="annotations"),
    pytest.param({"finalizers": ["plain"]}, "nor is it fully qualified", id="finalizer"),
    pytest.param({"finalizers": ["orphan", "foregroundDeletion"]}, "cannot be both set", id="both"),
    pytest.param({"ownerReferences": [{"kind": "K", "name": "n", "uid": "u"}]}, "version must not be empty", id="owner"),
]


@pytest.mark.parametrize(("changes", "expected"), CASES)
def test_validation(changes: dict[str, Any], expected: str | None) -> None:
    found = [str(error) for error in metadata.validate({"metadata": {**GOOD, **changes}}, True, None)]
    if expected is None:
        assert found == []
    else:
        assert any(expected in text for text in found), found


def test_two_controllers_are_one_too_many() -> None:
    owners = [{"apiVersion": "v1", "kind": "K", "name": name, "uid": name, "controller": True} for name in "ab"]
    found = metadata.validate({"metadata": {**GOOD, "ownerReferences": owners}}, True, None)
    assert "Only one reference can have Controller set to true" in str(found[0])


def test_an_update_cannot_change_identity() -> None:
    old = {"metadata": {"name": "a", "namespace": "n", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}}
    new = {"metadata": {"name": "a", "namespace": "n", "creationTimestamp": "2027-01-01T00:00:00Z", "generation": 9}}
    metadata.inherit_system_fields(new, old)
    assert new["metadata"]["uid"] == "u"
    assert "generation" not in new["metadata"]
    assert new["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z", "what clients say of it is ignored"
    assert metadata.validate_update(new, old) == []
    new["metadata"]["uid"] = "other"
    assert [str(error) for error in metadata.validate_update(new, old)] == [
        'metadata.uid: Invalid value: "other": field is immutable'
    ]
