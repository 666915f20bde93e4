"""Group, version, kind and resource names, and the URL paths made of them. Everybody's first import."""

from typing import NamedTuple


class GroupVersion(NamedTuple):
    """An API group and one of its versions; the core group is the empty string."""

    group: str
    version: str

    def __str__(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @classmethod
    def parse(cls, api_version: str) -> "GroupVersion":
        """Split an ``apiVersion`` such as ``apps/v1`` or ``v1``. Raises ValueError for more than one slash."""
        group, slash, version = api_version.rpartition("/")
        if "/" in group or (slash and not group):
            raise ValueError(f"unexpected GroupVersion string: {api_version}")
        return cls(group, version)


class GroupVersionKind(NamedTuple):
    """Names the type of an object, as ``apiVersion`` and ``kind`` do."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @classmethod
    def of(cls, obj: dict[str, object]) -> "GroupVersionKind":
        """The type an object claims for itself; empty strings where it claims nothing."""
        group_version = GroupVersion.parse(str(obj.get("apiVersion") or ""))
        return cls(group_version.group, group_version.version, str(obj.get("kind") or ""))


class GroupVersionResource(NamedTuple):
    """Names a collection, as URLs do: ``apps/v1 deployments``."""

    group: str
    version: str
    resource: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> str:
        """``deployments.apps``, or ``pods`` in the core group: the form error messages use."""
        return f"{self.resource}.{self.group}" if self.group else self.resource

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The URL path of the collection, of one object in it, or of a subresource of that object."""
        parts = ["/api" if not self.group else f"/apis/{self.group}", self.version]
        if namespace:
            parts += ["namespaces", namespace]
        parts.append(self.resource)
        if name:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return "/".join(parts)
