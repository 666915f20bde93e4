"""Revisions of DaemonSets and StatefulSets."""

import json
from typing import Any

from controlplane.controllers.lib.history import snapshot, template_of


def test_a_snapshot_is_a_patch_with_its_keys_in_order() -> None:
    template: dict[str, Any] = {
        "spec": {"containers": [{"name": "c", "image": "i"}]},
        "metadata": {"labels": {"b": "1", "a": "2"}},
    }
    made = snapshot(template)
    assert json.dumps(made) == json.dumps(made, sort_keys=True)
    assert made["spec"]["template"]["$patch"] == "replace"
    assert template_of({"data": made}) == template
    assert list(template) == ["spec", "metadata"], "the owner's own template stays as it is"
