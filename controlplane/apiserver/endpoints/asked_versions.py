"""Other versions of an object that somebody has to be asked for, for work that cannot wait.

Called by ``managers``. Finding out who set which field compares objects in each manager's version (``patch.versions``); where a
webhook converts, the work is given up at the first answer it lacks, and begun again once that has come. Work must therefore
change nothing before it has all it asks for.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import orjson

from apimachinery.meta import clone
from apimachinery.patch.versions import OtherVersion, OtherVersions
from controlplane.apiserver.registry.strategy import Strategy

Object = dict[str, Any]
Convert = Callable[[Object, str], Awaitable[Object]]
T = TypeVar("T")


class _MissingError(Exception):
    """The answer that is to be asked for next."""

    def __init__(self, obj: Object, version: str, key: bytes) -> None:
        super().__init__(version)
        self.obj, self.version, self.key = obj, version, key


async def with_others(own: Strategy, others: Sequence[Strategy], convert: Convert, work: Callable[[OtherVersions], T]) -> T:
    """What ``work`` gives. ``convert(obj, version)`` raises StatusError, which ends it."""
    answers: dict[bytes, Object] = {}
    versions = {other.info.gvk.api_version: made for other in others if (made := _version(own, other, answers)) is not None}
    while True:
        try:
            return work(versions)
        except _MissingError as wanting:
            answers[wanting.key] = await convert(wanting.obj, wanting.version)


def _version(own: Strategy, other: Strategy, answers: dict[bytes, Object]) -> OtherVersion | None:
    def converted(obj: Object, version: str) -> Object:
        key = version.encode() + b" " + orjson.dumps(obj)
        found = answers.get(key)
        if found is None:
            raise _MissingError(obj, version, key)
        return clone(found)

    there, back = other.info.gvk.version, own.info.gvk.version
    if other.own_schema is None:
        return None
    return OtherVersion(other.own_schema(), lambda obj: converted(obj, there), lambda obj: converted(obj, back))
