"""Generated data is told from what other sources would have made."""

import sys
from pathlib import Path

import pytest

from apimachinery.schema import loader

ROOT = Path(__file__).parents[4]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "a.json").write_text("{}")
    made = tmp_path / "schema_data.py"
    made.write_text("one")
    return made


def made_by(script: Path) -> str:
    sys.path.insert(0, str(ROOT / "scripts"))
    import schema_data

    return str(schema_data.made_by(script))


def test_the_data_of_this_checkout_is_fresh(script: Path) -> None:
    loader.load.__wrapped__()
    loader.check_fresh(made_by(script), script)


@pytest.mark.parametrize("change", ["script", "facts"])
def test_stale_data_is_refused_with_what_to_do(script: Path, change: str) -> None:
    held = made_by(script)
    (script if change == "script" else script.parent / "facts" / "b.json").write_text("two")
    with pytest.raises(loader.StaleDataError, match=r"run `python .*schema_data.py`"):
        loader.check_fresh(held, script)


def test_an_installed_package_has_nothing_to_compare_with(tmp_path: Path) -> None:
    loader.check_fresh("whatever", tmp_path / "schema_data.py")
