"""What every test gets: no event loop that nobody closes."""

import asyncio

# pytest-asyncio asks for "the current loop" before it makes its own. Told that there is none, asyncio makes none;
# otherwise Python 3.11 creates one there, which is never closed and fails some later test with a ResourceWarning.
asyncio.set_event_loop(None)
