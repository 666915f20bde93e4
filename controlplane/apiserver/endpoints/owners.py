"""Owner references that say the same twice: folded, with upstream's warning. Called by the endpoints that write whole objects."""

from typing import Any

from controlplane.apiserver.wire.call import Call

_WARNING = (
    ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may reject "
    "such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {uids}"
)


def fold(call: Call, obj: dict[str, Any], *, patched: bool = False) -> None:
    """Keep the first of equal references, in place. Two that differ in any field both stay, though their uid be the same."""
    held = obj["metadata"].get("ownerReferences")
    if not isinstance(held, list) or len(held) < 2:
        return
    kept: list[Any] = []
    twice: list[str] = []
    for reference in held:
        if reference in kept:
            twice.append(str(reference.get("uid", "")))
        else:
            kept.append(reference)
    if twice:
        obj["metadata"]["ownerReferences"] = kept
        when = " after mutating admission happens" if patched else ""
        call.warnings.append(_WARNING.format(when=when, uids=", ".join(twice)))
