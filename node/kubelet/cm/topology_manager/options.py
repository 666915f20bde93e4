"""``topologyManagerPolicyOptions``. Pure; ``config`` validates with it, ``manager`` obeys it."""

from collections.abc import Mapping
from dataclasses import dataclass

PREFER_CLOSEST, MAX_NODES = "prefer-closest-numa-nodes", "max-allowable-numa-nodes"
DEFAULT_MAX_NODES = 8  # above it the sets of nodes become too many to be gone through
_STABLE = frozenset({PREFER_CLOSEST, MAX_NODES})


@dataclass(frozen=True, slots=True)
class Options:
    prefer_closest: bool = False
    max_nodes: int = DEFAULT_MAX_NODES


def parse(given: Mapping[str, str]) -> Options:
    """Raises ValueError in upstream's words. All options of v1.36 are stable, so no gate is asked."""
    closest, most = False, 0
    for name, text in given.items():
        if name not in _STABLE:
            raise ValueError(f'unknown Topology Manager Policy option: "{name}"')
        if name == PREFER_CLOSEST:
            closest = boolean(name, text)
        else:
            try:
                most = int(text)
            except ValueError:
                raise ValueError(f'bad value for option "{name}": "{text}" is not a whole number') from None
    return Options(closest, most or DEFAULT_MAX_NODES)


def boolean(name: str, text: str) -> bool:
    """The words that Go takes for a truth value. Raises ValueError."""
    if text in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if text in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    raise ValueError(f'bad value for option "{name}": strconv.ParseBool: parsing "{text}": invalid syntax')
