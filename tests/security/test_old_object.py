"""CVE-2021-25735: what admission is shown as the old object is what is stored, whatever the request says."""

from typing import Any

import pytest

from controlplane.apiserver.admission.interface import Attributes
from controlplane.apiserver.admission.plugins.node_restriction import NodeRestriction
from tests.security.granting import MERGE
from tests.support.apiserver import TestServer

NODE = "/api/v1/nodes/n"


async def test_admission_sees_what_is_stored(server: TestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Any, Any]] = []

    async def validate(self: NodeRestriction, attributes: Attributes) -> None:
        if attributes.resource == "nodes" and attributes.operation == "UPDATE":
            old, new = attributes.old or {}, attributes.obj or {}
            seen.append((old["metadata"].get("labels"), new["metadata"].get("labels")))

    monkeypatch.setattr(NodeRestriction, "handles", lambda self, attributes: True)
    monkeypatch.setattr(NodeRestriction, "validate", validate)
    made = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"zone": "a"}}}
    assert (await server.request("POST", "/api/v1/nodes", made)).status == 201
    found = (await server.request("GET", NODE)).json
    found["metadata"]["labels"] = {"zone": "b"}
    assert (await server.request("PUT", NODE, found)).status == 200
    patch = {"metadata": {"labels": {"zone": "c"}}}
    assert (await server.request("PATCH", NODE, patch, content_type=MERGE)).status == 200
    assert seen == [({"zone": "a"}, {"zone": "b"}), ({"zone": "b"}, {"zone": "c"})]
