"""The shape of a filter: it reads and fills the call, or raises to refuse it."""

from collections.abc import Awaitable, Callable

from controlplane.apiserver.wire.call import Call

Filter = Callable[[Call], Awaitable[None] | None]
"""Returns None, or an awaitable when it had to do I/O. Raises StatusError (or AuthenticationFailed) to refuse."""
