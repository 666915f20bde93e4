"""A PodGroup stays until its last pod has ended."""

from typing import Any

from apimachinery.meta import has_finalizer
from apimachinery.resources import PODS
from component.features import from_flag
from controlplane.controllers.podgroup_protection import FINALIZER, POD_GROUPS
from tests.integration.controllers.test_volume_protection import gone
from tests.support.apiserver import running_apiserver
from tests.support.control_plane import control_plane, eventually

_FLAGS = ("--feature-gates=GenericWorkload=true",)
_ON: dict[str, Any] = {
    "features": from_flag({"GenericWorkload": "true"}),
    "runtime_config": {"scheduling.k8s.io/v1alpha2": "true"},
}


async def test_a_group_stays_while_a_pod_belongs_to_it() -> None:
    controllers = "podgroup-protection,serviceaccount"
    async with (
        running_apiserver(**_ON) as server,
        control_plane(server, _FLAGS, schedule=False, controllers=controllers) as client,
    ):
        spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
        await client.create(POD_GROUPS, {"metadata": {"name": "g"}, "spec": spec}, "default")
        containers = [{"name": "c", "image": "i"}]
        member = {"containers": containers, "schedulingGroup": {"podGroupName": "g"}, "nodeName": "node-1"}
        await client.create(PODS, {"metadata": {"name": "p"}, "spec": member}, "default")

        async def protected() -> bool:
            return has_finalizer(await client.get(POD_GROUPS, "g", "default"), FINALIZER)

        await eventually(protected)
        await client.delete(POD_GROUPS, "g", "default")
        assert not await gone(client, POD_GROUPS, "g", "default")
        await client.patch(PODS, "p", {"status": {"phase": "Succeeded"}}, namespace="default", subresource="status")
        await eventually(lambda: gone(client, POD_GROUPS, "g", "default"))
