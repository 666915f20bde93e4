"""Read by schemathesis itself (``SCHEMATHESIS_HOOKS``): a watch ends after a second, and is not taken for a hang."""

from typing import Any

import schemathesis


@schemathesis.hook
def map_query(context: Any, query: dict[str, Any] | None) -> dict[str, Any] | None:
    if query and "watch" in query:  # an empty one means yes, too
        query["timeoutSeconds"] = 1
    return query
