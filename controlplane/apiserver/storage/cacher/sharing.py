"""Equal traits are stored once: the pods of a Deployment have one label dict, the pods of a node one string for its name.

Owned by ``cacher``. Without it the traits of 20,000 pods take half as much memory as their bytes. What it remembers is
bounded; when a bound is reached, sharing starts over or stops for that field.
"""

from controlplane.apiserver.storage.encoding import NO_TRAITS
from controlplane.apiserver.storage.interface import Traits

LABEL_SETS = 20_000  # distinct label dicts remembered
VALUES = 500  # distinct values of one field; a field with more is like a name, hardly ever equal


class Sharing:
    def __init__(self) -> None:
        self._label_sets: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
        self._values: dict[str, dict[str, str]] = {}

    def share(self, traits: Traits) -> Traits:
        """The same traits, of shared parts. Takes over the dicts that it is given."""
        fields = traits.fields
        for field, value in fields.items():
            known = self._values.setdefault(field, {})
            if len(known) < VALUES and field != "metadata.name":
                fields[field] = known.setdefault(value, value)
            else:
                fields[field] = known.get(value, value)
        labels = traits.labels
        if not labels:
            shared = NO_TRAITS.labels
        else:
            if len(self._label_sets) >= LABEL_SETS:
                self._label_sets.clear()
            shared = self._label_sets.setdefault(tuple(labels.items()), labels)
        return traits if shared is labels else Traits(shared, fields)
