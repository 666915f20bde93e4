"""Everything that discovery and OpenAPI list: the kinds, and resources that are answered without being stored."""

from collections.abc import Sequence

from controlplane.apiserver import discovery
from controlplane.apiserver.discovery import Listed
from controlplane.apiserver.endpoints.componentstatus import COMPONENT_STATUS
from controlplane.apiserver.endpoints.reviews import REVIEWS, ReviewStrategy
from controlplane.apiserver.endpoints.subresource import BINDINGS
from controlplane.apiserver.registry.strategy import Strategy


def listed_resources(kinds: Sequence[Strategy], more: Sequence[Strategy] = ()) -> list[Listed]:
    """In the order of discovery; ``more`` is served beside the kinds without being stored."""
    others = (*REVIEWS, BINDINGS, COMPONENT_STATUS)
    return discovery.listed([*kinds, *(ReviewStrategy(info) for info in others), *more])
