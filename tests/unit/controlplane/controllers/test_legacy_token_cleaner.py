"""Which old tokens are marked and which removed."""

from datetime import date, timedelta
from typing import Any

import pytest

from controlplane.controllers.legacy_token_cleaner import INVALID_SINCE, LAST_USED, candidates, decision

YEAR, TODAY, SINCE = timedelta(days=365), date(2026, 11, 30), date(2020, 1, 1)


def secret(name: str = "t", created: str = "2020-02-01", **labels: str) -> dict[str, Any]:
    keys = {"used": LAST_USED, "invalid": INVALID_SINCE}
    marks = {keys[key]: value for key, value in labels.items()}
    return {"metadata": {"name": name, "namespace": "n", "creationTimestamp": f"{created}T00:00:00Z", "labels": marks}}


@pytest.mark.parametrize(
    ("token", "since", "what"),
    [
        (secret(), SINCE, "mark"),
        (secret(created="2026-10-01"), SINCE, "keep"),
        (secret(used="2026-10-01"), SINCE, "keep"),
        (secret(used="2025-10-01"), SINCE, "mark"),
        (secret(used="2024-01-01", invalid="2025-10-01"), SINCE, "remove"),
        (secret(used="2024-01-01", invalid="2026-10-01"), SINCE, "keep"),
        (secret(used="2025-11-01", invalid="2025-10-01"), SINCE, "keep"),  # used after it was marked: somebody had it back
        (secret(), date(2026, 6, 1), "keep"),  # not watched for long enough
    ],
)
def test_decision(token: dict[str, Any], since: date, what: str) -> None:
    assert decision(token, since, TODAY, YEAR) == what


def test_only_tokens_that_accounts_list_and_pods_do_not_mount() -> None:
    account = {"metadata": {"name": "a", "namespace": "n"}, "secrets": [{"name": "listed"}, {"name": "mounted"}]}
    pod = {"metadata": {"name": "p", "namespace": "n"}, "spec": {"volumes": [{"secret": {"secretName": "mounted"}}]}}
    tokens = [secret("listed"), secret("mounted"), secret("by-hand")]
    assert [each["metadata"]["name"] for each in candidates(tokens, [account], [pod])] == ["listed"]
