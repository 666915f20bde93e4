"""``subresources.scale``: where a custom resource keeps its replicas and their selector."""

from typing import Any

from apimachinery import errors, fieldpath
from apimachinery.fieldpath import FieldError
from controlplane.apiserver.crd.definition import ScalePaths

Object = dict[str, Any]

_MOST = (1 << 31) - 1
_GO_TYPES = {str: "string", bool: "bool", float: "float64", dict: "map[string]interface {}", list: "[]interface {}"}


class PathReplicas:
    """See ``registry.strategy.Replicas``. The paths are names with dots between, which validation has seen to."""

    def __init__(self, paths: ScalePaths) -> None:
        self._paths = paths
        self._spec, self._status = _names(paths.spec_replicas), _names(paths.status_replicas)
        self._selector = _names(paths.selector)

    def spec(self, obj: Object) -> int:
        found = _at(obj, self._spec)
        if found is None:
            raise errors.internal(f'the spec replicas field "{self._paths.spec_replicas}" does not exist')
        return _number(found)

    def status(self, obj: Object) -> int:
        return _number(_at(obj, self._status))

    def selector(self, obj: Object) -> str:
        found = _at(obj, self._selector) if self._selector else None
        return found if isinstance(found, str) else ""

    def set(self, obj: Object, replicas: int) -> Object:
        return _with(obj, self._spec, replicas)

    def problems(self, obj: Object) -> list[FieldError]:
        """What is wrong with the numbers of an object about to be stored."""
        found = []
        for path, names in ((self._paths.spec_replicas, self._spec), (self._paths.status_replicas, self._status)):
            value = _at(obj, names)
            if value is None:
                continue
            if type(value) is not int:
                text = f".{'.'.join(names)} accessor error: {value} is of the type {_GO_TYPES[type(value)]}, expected int64"
                found.append(fieldpath.invalid(path, 0, text))
            elif value < 0:
                found.append(fieldpath.invalid(path, value, "should be a non-negative integer"))
            elif value > _MOST:
                found.append(fieldpath.invalid(path, value, f"should be less than or equal to {_MOST}"))
        return found


def _names(path: str) -> tuple[str, ...]:
    return tuple(path.removeprefix(".").split(".")) if path else ()


def _at(obj: Any, names: tuple[str, ...]) -> Any:
    for name in names:
        obj = obj.get(name) if isinstance(obj, dict) else None
    return obj


def _number(value: Any) -> int:
    return value if type(value) is int else 0


def _with(obj: Object, names: tuple[str, ...], value: int) -> Object:
    first, *rest = names
    inner = obj.get(first)
    return {**obj, first: _with(inner if isinstance(inner, dict) else {}, tuple(rest), value) if rest else value}
