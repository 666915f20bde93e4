"""Hatchling's hook: makes what is generated (CRI stubs, compact schema, the name of the commit) before a wheel or an
editable install.

Both generators can be run alone: ``python scripts/cri_stubs.py`` and ``python scripts/schema_data.py``.
"""

import runpy
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent))


class GenerateHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs both generators in the source tree; hatch then picks the files up as artifacts."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        import cri_stubs
        import schema_data

        root = Path(self.root)
        cri_stubs.generate(root)
        schema_data.generate(root)
        _note_commit(root)


def _note_commit(root: Path) -> None:
    """For ``/version`` of an installed package. A source archive has no checkout, but brings the file."""
    known = runpy.run_path(str(root / "component" / "version.py"))
    if commit := known["git_commit"](root):
        (root / known["COMMIT_FILE"]).write_text(commit + "\n")
