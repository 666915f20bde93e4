"""Writing one half of an object while somebody else writes the other."""

from typing import Any

import pytest

from apimachinery.errors import StatusError, is_another
from apimachinery.resources import REPLICA_SETS
from client.kubeconfig import load
from client.rest import STRATEGIC, Client
from controlplane.controllers.lib.writes import write_spec, write_status
from tests.support.apiserver import running_apiserver


def replica_set() -> dict[str, Any]:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    metadata = {"name": "web", "namespace": "default", "annotations": {"example.com/a-b": "1", "gone": "x"}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}


async def test_each_half_is_written_though_the_other_has_moved() -> None:
    async with running_apiserver() as server, Client(load(server.kubeconfig)) as client:
        held = await client.create(REPLICA_SETS, replica_set(), "default")
        await write_status(client, REPLICA_SETS, held, {"replicas": 1, "readyReplicas": 1})
        annotations = {"example.com/a-b": "2"}
        metadata = {**held["metadata"], "annotations": annotations}
        grown = {**held, "metadata": metadata, "spec": {**held["spec"], "replicas": 3}}
        written = await write_spec(client, REPLICA_SETS, held, grown)
        assert (written["spec"]["replicas"], written["metadata"]["annotations"]) == (3, annotations)
        assert written["status"] == {"replicas": 1, "readyReplicas": 1}
        after = await write_status(client, REPLICA_SETS, {**held, "status": written["status"]}, {"replicas": 2})
        assert (after["status"], after["spec"]["replicas"]) == ({"replicas": 2}, 3)


async def test_what_matters_is_a_conflict() -> None:
    async with running_apiserver() as server, Client(load(server.kubeconfig)) as client:
        held = await client.create(REPLICA_SETS, replica_set(), "default")
        await client.patch(REPLICA_SETS, "web", {"spec": {"replicas": 5}}, STRATEGIC, "default")
        with pytest.raises(StatusError) as lost:
            await write_spec(client, REPLICA_SETS, held, {**held, "spec": {**held["spec"], "replicas": 3}})
        assert lost.value.code == 409
        stranger = {**held, "metadata": {**held["metadata"], "uid": "another"}}
        for write in (
            write_status(client, REPLICA_SETS, stranger, {"replicas": 1}),
            write_spec(client, REPLICA_SETS, stranger, held),
        ):
            with pytest.raises(StatusError) as lost:
                await write
            assert lost.value.code == 409


async def test_a_write_for_another_object_is_told_apart() -> None:
    """However the server says it: clients that named a uid must know that theirs is gone, and leave the other alone."""
    async with running_apiserver() as server, Client(load(server.kubeconfig)) as client:
        held = await client.create(REPLICA_SETS, replica_set(), "default")
        stranger = {**held, "metadata": {**held["metadata"], "uid": "another"}}
        for write in (
            client.patch(REPLICA_SETS, "web", {"metadata": {"uid": "another"}}, STRATEGIC, "default"),
            client.patch(
                REPLICA_SETS, "web", {"metadata": {"uid": "another"}, "status": {}}, STRATEGIC, "default", subresource="status"
            ),
            client.update(REPLICA_SETS, stranger),
            client.delete(REPLICA_SETS, "web", "default", preconditions={"uid": "another"}),
        ):
            with pytest.raises(StatusError) as lost:
                await write
            assert is_another(lost.value), lost.value
        with pytest.raises(StatusError) as lost:
            await client.patch(REPLICA_SETS, "web", {"spec": {"replicas": -1}}, STRATEGIC, "default")
        assert not is_another(lost.value)
