"""How often somebody was recognised, let through, or became somebody else: upstream's names. Plain integers on the way.

``authenticate``, ``authorize`` and ``impersonate`` count; who asked goes into few groups, as names would fill the memory.
"""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from component.histogram import Times
from controlplane.apiserver.authorization.interface import Decision

SUCCESS, FAILURE, ERROR = "success", "failure", "error"
_NAMED = frozenset({"admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default"})
_WORDS = {Decision.ALLOW: "allowed", Decision.DENY: "denied", Decision.NO_OPINION: "no-opinion"}


def user_group(name: str) -> str:
    """The few groups that upstream counts users in."""
    return name if name in _NAMED else "email_id" if "@" in name else "other"


class AccessMetrics(Collector):
    def __init__(self) -> None:
        self.users: Counter[str] = Counter()
        self._recognised = {result: Times() for result in (SUCCESS, FAILURE, ERROR)}
        self._remembered = self._recognised[SUCCESS].counts
        self._decided = {word: Times() for word in (*_WORDS.values(), ERROR)}
        self._by_decision = {decision: self._decided[word] for decision, word in _WORDS.items()}
        self._impersonations: Counter[tuple[str, str]] = Counter()

    def remembered(self, group: str) -> None:
        """Who asks was known from an earlier request of the connection: it took no time."""
        self.users[group] += 1
        self._remembered[0] += 1

    def recognised(self, result: str, seconds: float) -> None:
        self._recognised[result].add(seconds)

    def decided(self, decision: Decision | None, seconds: float) -> None:
        """None when the question could not be answered."""
        (self._decided[ERROR] if decision is None else self._by_decision[decision]).add(seconds)

    def impersonated(self, mode: str, allowed: bool) -> None:
        self._impersonations[mode, "allowed" if allowed else "denied"] += 1

    def collect(self) -> Iterator[Metric]:
        users = Counts("authenticated_user_requests", "Counter of authenticated requests broken out by username.", ("username",))
        for group, count in self.users.items():
            users.add_metric((group,), count)
        yield users
        yield from _shown(
            Counts("authentication_attempts", "Counter of authenticated attempts.", ("result",)),
            HistogramMetricFamily(
                "authentication_duration_seconds",
                "Authentication duration in seconds broken out by result.",
                labels=("result",),
            ),
            self._recognised,
        )
        yield from _shown(
            CounterMetricFamily(
                "authorization_attempts_total",
                "Counter of authorization attempts broken down by result. It can be either 'allowed', 'denied', 'no-opinion' or"
                " 'error'.",
                labels=("result",),
            ),
            HistogramMetricFamily(
                "authorization_duration_seconds",
                "Authorization duration in seconds broken out by result.",
                labels=("result",),
            ),
            self._decided,
        )
        attempts = CounterMetricFamily(
            "apiserver_impersonation_attempts_total", "Impersonation attempts by mode and decision.", labels=("mode", "decision")
        )
        for labels, count in self._impersonations.items():
            attempts.add_metric(labels, count)
        yield attempts


class Counts(Metric):
    """A counter whose name has no ``_total``, which upstream's older ones have not and the library insists on."""

    def __init__(self, name: str, text: str, labels: tuple[str, ...]) -> None:
        super().__init__(name, text, "unknown")
        self._labels = labels

    def add_metric(self, values: tuple[str, ...], count: float) -> None:
        self.add_sample(self.name, dict(zip(self._labels, values, strict=True)), count)


def _shown(counts: "Counts | CounterMetricFamily", times: HistogramMetricFamily, measured: dict[str, Times]) -> Iterator[Metric]:
    for result, each in measured.items():
        if each.count:
            counts.add_metric((result,), each.count)
            each.show(times, (result,))
    yield from (counts, times)
