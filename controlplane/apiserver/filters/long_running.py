"""Which requests last as long as their client likes: they have no time limit, and no seat once they have begun."""

from controlplane.apiserver.wire.call import Call

_SUBRESOURCES = frozenset({"exec", "attach", "portforward", "proxy", "log"})


def is_long_running(call: Call) -> bool:
    info = call.info
    return info.verb == "watch" or (info.is_resource and info.subresource in _SUBRESOURCES)
