"""Configuration that must be taken at its word: a misspelt or doubled key is refused, not passed over in silence.

Upstream's strict decoders do the same for the files that decide who gets in. ``controlplane.apiserver`` reads those with it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

Shape = Mapping[str, Any]
"""Known keys: a value is None for anything, a Shape for a mapping, a list of one Shape for a list of such mappings."""
_MERGE = "tag:yaml.org,2002:merge"


class _Loader(yaml.SafeLoader):
    """Remembers keys that a mapping has twice, of which YAML's own loader would keep the last."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen = set()
    for key_node, _ in node.value:
        if key_node.tag == _MERGE:
            continue
        key = loader.construct_object(key_node, deep=True)
        if isinstance(key, str) and key in seen:
            raise ValueError(f'strict decoding error: key "{key}" already set in map')
        if isinstance(key, str):
            seen.add(key)
    loader.flatten_mapping(node)
    return loader.construct_mapping(node, deep=True)


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def load(data: bytes) -> Any:
    """One document of YAML or JSON. Raises yaml.YAMLError, and ValueError for a key that is there twice."""
    loader = _Loader(data)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def check(document: Any, shape: Shape) -> None:
    """Raises ValueError naming every key that ``shape`` does not know."""
    if found := list(unknown(document, shape)):
        raise ValueError(f"strict decoding error: {', '.join(found)}")


def unknown(value: Any, shape: Shape, path: str = "") -> Iterator[str]:
    if not isinstance(value, Mapping):
        return
    for key, inner in value.items():
        where = f"{path}.{key}" if path else str(key)
        if key not in shape:
            yield f'unknown field "{where}"'
        elif isinstance(shape[key], list) and isinstance(inner, list):
            for number, each in enumerate(inner):
                yield from unknown(each, shape[key][0], f"{where}[{number}]")
        elif isinstance(shape[key], Mapping):
            yield from unknown(inner, shape[key], where)
