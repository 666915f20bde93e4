"""How often tokens of service accounts were used, by what is to be known of them: upstream's ``pkg/serviceaccount/metrics.go``.

``service_account`` and ``legacy_token`` count; whoever takes over an old cluster sees here whether tokens that never end, or
that should have been renewed, are still in use. ``assembly.server`` registers it.
"""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

LEGACY, STALE, VALID = "legacy_tokens", "stale_tokens", "valid_tokens"
MANUAL, AUTO, INVALID_AUTO = "legacy_manual_token_uses", "legacy_auto_token_uses", "invalid_legacy_auto_token_uses"
_TEXTS = {
    LEGACY: "Cumulative legacy service account tokens used",
    STALE: "Cumulative stale projected service account tokens used",
    VALID: "Cumulative valid projected service account tokens used",
    MANUAL: "Cumulative manually created legacy tokens used",
    AUTO: "Cumulative auto-generated legacy tokens used",
    INVALID_AUTO: "Cumulative invalid auto-generated legacy tokens used",
}


class TokenUses(Collector):
    """Plain integers; made into metrics when somebody scrapes."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def collect(self) -> Iterator[Metric]:
        for name, text in _TEXTS.items():
            yield CounterMetricFamily(f"serviceaccount_{name}_total", text, value=self.counts[name])
