"""What selectors look at, extracted from an object: its labels and selectable fields. Handed to storage for each resource."""

from typing import Any

from controlplane.apiserver.registry.naming import prefix_of
from controlplane.apiserver.registry.strategy import Strategy
from controlplane.apiserver.storage.interface import Collection, ExtractTraits, Traits

# Fields that clients ask for by equality so often that a scan of everything would hurt: kubelets list their own pods.
_INDEXED = frozenset({"spec.nodeName", "involvedObject.uid"})


def extractor(strategy: Strategy) -> ExtractTraits:
    def extract(obj: dict[str, Any]) -> Traits:
        meta = obj["metadata"]
        fields = dict(strategy.selectable_fields(obj))
        fields["metadata.name"] = meta.get("name") or ""
        namespace = meta.get("namespace")
        if namespace:
            fields["metadata.namespace"] = namespace
        return Traits(meta.get("labels") or {}, fields)

    return extract


def collection_of(strategy: Strategy) -> Collection:
    """The resource as storage sees it. ``strategy`` is the one of the stored form."""
    info = strategy.info
    indexes = tuple(sorted(strategy.selectable_names & _INDEXED))
    return Collection(
        prefix_of(info), info.gvk.api_version, info.gvk.kind, extractor(strategy), namespaced=info.namespaced, indexes=indexes
    )
