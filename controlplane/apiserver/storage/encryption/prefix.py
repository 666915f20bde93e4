"""Several transformers told apart by how the stored value begins; itself a transformer.

Two levels of it make a stored form: ``k8s:enc:aesgcm:v1:`` chooses the provider, ``NAME:`` its key.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.apiserver.storage.encryption.interface import KeyUnavailableError, Transformer, TransformError


@dataclass(frozen=True, slots=True)
class Prefixed:
    prefix: bytes
    transformer: Transformer


class PrefixTransformers:
    """Writes with the first; reads with whichever's prefix is there, and calls that stale when it is not the first.

    Keys of the same name are tried in turn, as upstream does.
    """

    def __init__(self, choices: Sequence[Prefixed], unmatched: str) -> None:
        """``unmatched`` is the complaint about a value that no prefix fits."""
        self._choices, self._unmatched = tuple(choices), unmatched

    async def from_storage(self, data: bytes, key: bytes) -> tuple[bytes, bool]:
        problems: list[str] = []
        for position, choice in enumerate(self._choices):
            if not data.startswith(choice.prefix):
                continue
            try:
                value, stale = await choice.transformer.from_storage(data[len(choice.prefix) :], key)
            except KeyUnavailableError:
                raise
            except TransformError as error:
                problems.append(str(error))
                continue
            return value, stale or position > 0
        distinct = list(dict.fromkeys(problems)) or [self._unmatched]
        raise TransformError(distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]")

    async def to_storage(self, data: bytes, key: bytes) -> bytes:
        first = self._choices[0]
        return first.prefix + await first.transformer.to_storage(data, key)
