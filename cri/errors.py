"""What can go wrong between the kubelet and the runtime, as exceptions without gRPC in their types.

Raised by ``runtime.py``, ``images.py`` and ``fake.py`` alike; callers tell apart by class and show ``str(error)`` in
events, where upstream shows ``rpc error: code = NotFound desc = ...``.
"""


class RuntimeServiceError(Exception):
    """A call failed. ``code`` is gRPC's name for the kind of failure in upstream's spelling, ``details`` the runtime's words."""

    code = "Unknown"

    def __init__(self, details: str, code: str = "") -> None:
        super().__init__(details)
        self.details = details
        if code:
            self.code = code

    def __str__(self) -> str:
        return f"rpc error: code = {self.code} desc = {self.details}"


class NotFoundError(RuntimeServiceError):
    """The sandbox, container or image does not exist (any more)."""

    code = "NotFound"


class UnavailableError(RuntimeServiceError):
    """The runtime does not answer on its socket; it may come back, the connection heals by itself."""

    code = "Unavailable"


class DeadlineError(RuntimeServiceError):
    """The runtime, or a command run by it, took longer than it was given."""

    code = "DeadlineExceeded"


class UnimplementedError(RuntimeServiceError):
    """This runtime is older than the call (containerd 1.6 has no event stream)."""

    code = "Unimplemented"


class InvalidArgumentError(RuntimeServiceError):
    """The runtime refuses the request as it stands; trying again unchanged is useless."""

    code = "InvalidArgument"
