"""What every test gets: no event loop that nobody closes, and the generated schema where the package was not built."""

import asyncio
import sys
from pathlib import Path

import hypothesis

# pytest-asyncio asks for "the current loop" before it makes its own. Told that there is none, asyncio makes none;
# otherwise Python 3.11 creates one there, which is never closed and fails some later test with a ResourceWarning.
asyncio.set_event_loop(None)

# A busy machine is no bug: the tests have a timeout of their own.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")

ROOT = Path(__file__).parent.parent


def pytest_configure() -> None:
    if not (ROOT / "apimachinery/schema/data/structure.json").exists():
        sys.path.insert(0, str(ROOT / "scripts"))
        import schema_data

        schema_data.generate(ROOT)
