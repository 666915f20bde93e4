"""AlwaysPullImages: nobody uses an image of somebody else's by guessing its name; each start asks the registry."""

from collections.abc import Iterator

from apimachinery import fieldpath
from controlplane.apiserver.admission.interface import CREATE, UPDATE, Attributes, Object, refuse

_GROUPS = ("initContainers", "containers", "ephemeralContainers")


class AlwaysPullImages:
    name = "AlwaysPullImages"

    def handles(self, attributes: Attributes) -> bool:
        if attributes.group_resource != "pods" or attributes.operation not in (CREATE, UPDATE) or attributes.obj is None:
            return False
        return attributes.subresource in ("", "ephemeralcontainers") and _brings_images(attributes)

    async def mutate(self, attributes: Attributes) -> None:
        for holder, field, _ in _holders(attributes.obj or {}):
            holder[field] = "Always"

    async def validate(self, attributes: Attributes) -> None:
        for holder, field, path in _holders(attributes.obj or {}):
            if holder.get(field) != "Always":
                raise refuse(attributes, str(fieldpath.not_supported(path, holder.get(field) or "", ["Always"])))


def _holders(pod: Object) -> Iterator[tuple[Object, str, str]]:
    spec = pod.get("spec") or {}
    for group in _GROUPS:
        for number, container in enumerate(spec.get(group) or ()):
            yield container, "imagePullPolicy", f"spec.{group}[{number}].imagePullPolicy"
    for number, volume in enumerate(spec.get("volumes") or ()):
        if volume.get("image"):
            yield volume["image"], "pullPolicy", f"spec.volumes[{number}].image.pullPolicy"


def _brings_images(attributes: Attributes) -> bool:
    """An update that names no new image leaves pods as they were admitted."""
    if attributes.operation == CREATE or attributes.old is None:
        return True

    def images(pod: Object | None) -> set[str]:
        spec = (pod or {}).get("spec") or {}
        return {each.get("image") or "" for group in _GROUPS for each in spec.get(group) or ()}

    return bool(images(attributes.obj) - images(attributes.old))
