"""What a daemon is: a name, its flags, and one coroutine. Called by each daemon's ``__main__`` and by ``cli``.

Every ``<room>/__main__.py`` ends in a module constant ``DAEMON``. ``cli`` turns it into a verb of ``pybernetes``;
``pybernetes up`` runs several in one process. So a daemon's ``main`` never touches process-wide state: signals, the
event loop policy and log handlers belong to :func:`run`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click


@dataclass(frozen=True)
class Daemon:
    """One long-running part of the system.

    ``main(options)`` runs until cancelled, and on cancellation shuts down cleanly. ``options`` maps click parameter
    names to parsed values. It raises ``click.UsageError`` for flags that do not fit together, before any side effect.
    """

    name: str
    help: str
    params: Sequence[click.Parameter]
    main: Callable[[Mapping[str, Any]], Awaitable[None]]
