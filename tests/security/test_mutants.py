"""Every defence is seen by its test: with the defence taken away the test fails, and by its own judgement."""

import pytest

from tests.security import mutants, mutants_of_bounds, mutants_of_keys
from tests.security.mutants import Mutant

MUTANTS = (*mutants.MUTANTS, *mutants_of_keys.MUTANTS, *mutants_of_bounds.MUTANTS)


class _Verdicts:
    """What became of the tests of one inner run."""

    def __init__(self) -> None:
        self.passed = 0
        self.objections: list[str] = []
        self.accidents: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.passed += 1
        elif report.failed:
            (self.objections if report.when == "call" else self.accidents).append(
                f"{report.nodeid}: {report.longreprtext[-400:]}"
            )


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.row.replace(" ", "-"))
def test_a_server_without_its_defence_is_noticed(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.plant(monkeypatch)
    verdicts = _Verdicts()
    options = ["-q", "-x", "-p", "no:cacheprovider", "--no-header"]
    code = pytest.main([*options, mutant.test], plugins=[verdicts])
    assert verdicts.accidents == []
    assert (code, bool(verdicts.objections)) == (pytest.ExitCode.TESTS_FAILED, True), f"{mutant.test} did not object"
