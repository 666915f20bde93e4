"""What the second round of mutating admission has to know of the first: upstream's ``webhookReinvokeContext``.

Kept in the Attributes of a write, by each of the two plugins for its own: webhooks, and policies with binding and parameter.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Self

import orjson

from controlplane.apiserver.admission.interface import Attributes


@dataclass(slots=True)
class Memory:
    output: bytes = b""
    asked: set[Hashable] = field(default_factory=set)  # that want to be asked again after a change
    due: set[Hashable] = field(default_factory=set)

    @classmethod
    def begin(cls, attributes: Attributes, plugin: str) -> Self:
        """A round begins; plugins in between may have changed the object since the last one ended."""
        memory: Self = attributes.reinvocation.memory.setdefault(plugin, cls())
        if attributes.reinvocation.under_way and memory.asked and _encoded(attributes) != memory.output:
            memory.changed()
        return memory

    def end(self, attributes: Attributes) -> None:
        if self.asked and not attributes.reinvocation.under_way:
            self.output = _encoded(attributes)

    def changed(self) -> None:
        self.due |= self.asked
        self.asked = set()


def _encoded(attributes: Attributes) -> bytes:
    return orjson.dumps(attributes.obj, option=orjson.OPT_SORT_KEYS)
