"""The scale subresource of whatever an autoscaler names: Deployments and their like, and custom resources that have one."""

from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersion, GroupVersionResource
from apimachinery.meta import Object
from client.rest import Client
from controlplane.controllers.horizontalpodautoscaler.mapping import Mapper


class Scales:
    """Reads and writes ``autoscaling/v1`` Scales."""

    def __init__(self, client: Client, mapper: Mapper) -> None:
        self._client, self._mapper = client, mapper

    async def get(self, namespace: str, reference: Object) -> tuple[GroupVersionResource, Object]:
        """The resource that ``scaleTargetRef`` means, and the scale of that object.

        :raises InvalidReferenceError: an ``apiVersion`` that cannot be read.
        :raises NoMatchError: no such kind, or one that cannot be scaled.
        :raises StatusError: the answer of the first version that was asked, if none had the object.
        """
        try:
            group = GroupVersion.parse(reference.get("apiVersion") or "").group
        except ValueError as error:
            raise InvalidReferenceError(str(error)) from error
        first: StatusError | UnscalableError | None = None
        for mapping in await self._mapper.mappings(group, reference["kind"]):
            try:
                if not mapping.scales:
                    raise UnscalableError(mapping.resource)
                return mapping.resource, await self._client.get(
                    mapping.resource, reference["name"], namespace, subresource="scale"
                )
            except (StatusError, UnscalableError) as error:
                first = first or error
        assert first is not None  # there is a mapping, or NoMatchError
        raise first

    async def set(self, resource: GroupVersionResource, scale: Object, replicas: int) -> None:
        """Refused with a conflict if somebody changed the object since ``scale`` was read."""
        await self._client.update(
            resource, {**scale, "spec": {**(scale.get("spec") or {}), "replicas": replicas}}, subresource="scale"
        )


class InvalidReferenceError(ValueError):
    """``scaleTargetRef.apiVersion`` is no group and version."""


class UnscalableError(ValueError):
    """The resource has no scale subresource."""

    def __init__(self, resource: GroupVersionResource) -> None:
        shown = f"{resource.api_version if resource.group else '/' + resource.version}, Resource={resource.resource}"
        super().__init__(f"could not find scale subresource for {shown} in discovery information")
