"""Where objects of a resource live in the store, and names made from ``generateName``. Pure."""

from apimachinery import errors
from controlplane.apiserver.registry.strategy import ResourceInfo
from controlplane.apiserver.storage.layout import resource_prefix


def prefix_of(info: ResourceInfo) -> str:
    """``/registry/pods/``, ``/registry/deployments/``."""
    return resource_prefix(info.gvk.group, info.plural)


def collection(prefix: str, namespace: str) -> str:
    return f"{prefix}{namespace}/" if namespace else prefix


def key(prefix: str, namespaced: bool, namespace: str, name: str) -> str:
    """Raises a 400 for a missing part; request info has refused what is dangerous in a path."""
    if namespaced and not namespace:
        raise errors.bad_request("Namespace parameter required.")
    if not name:
        raise errors.bad_request("Name parameter required.")
    for part, what in ((namespace, "Namespace"), (name, "Name")):
        if "/" in part or "%" in part or part in (".", ".."):
            raise errors.bad_request(f'{what} parameter invalid: "{part}": may not be a path')
    return f"{prefix}{namespace}/{name}" if namespaced else f"{prefix}{name}"
