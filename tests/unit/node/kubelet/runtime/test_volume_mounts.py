"""Read-only, and read-only all the way down."""

from typing import Any

import pytest

from node.kubelet.interface import VolumeError
from node.kubelet.runtime.containers import recursive_read_only


@pytest.mark.parametrize(
    ("wanted", "supported", "expected"),
    [
        ({}, True, False),
        ({"readOnly": True}, True, False),
        ({"readOnly": True, "recursiveReadOnly": "Enabled"}, True, True),
        ({"readOnly": True, "recursiveReadOnly": "IfPossible"}, False, False),
        ({"readOnly": True, "recursiveReadOnly": "Enabled"}, False, "is not supported by the runtime"),
        ({"recursiveReadOnly": "IfPossible"}, True, "it is not read-only"),
        (
            {"readOnly": True, "recursiveReadOnly": "Enabled", "mountPropagation": "HostToContainer"},
            True,
            "not compatible with propagation HostToContainer",
        ),
    ],
)
def test_recursive_read_only(wanted: dict[str, Any], supported: bool, expected: bool | str) -> None:
    given = {"name": "v", **wanted}
    if isinstance(expected, str):
        with pytest.raises(VolumeError, match=expected):
            recursive_read_only(given, False, supported)
    else:
        assert recursive_read_only(given, False, supported) is expected
