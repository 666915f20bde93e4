"""Stored bytes as entries: what a reader gets is what was stored, whatever the collection expects."""

import pytest

from controlplane.apiserver.storage.encoding import StoredEntry, encode, head_of

EXPECTED = head_of("example.com/v2", "Widget")


@pytest.mark.parametrize("version", ["example.com/v2", "example.com/v1", "example.com/v1beta1"])
def test_an_entry_has_the_version_it_is_stored_in(version: str) -> None:
    value = encode({"apiVersion": version, "kind": "Widget", "metadata": {"name": "a"}, "spec": {}})
    entry = StoredEntry("/registry/example.com/widgets/a", value, 7, head=EXPECTED)
    assert entry.decode()["apiVersion"] == version
    assert entry.holds(value)
    assert (entry.head is EXPECTED) == (version == "example.com/v2")
