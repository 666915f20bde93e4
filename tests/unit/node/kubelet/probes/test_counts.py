"""What probes have said, as a page; a pod that goes takes its series along."""

from node.kubelet.probes.counts import ProbeCounts
from node.kubelet.probes.results import Kind, Outcome

WEB = {"metadata": {"name": "web", "namespace": "ns", "uid": "u"}}
OTHER = {"metadata": {"name": "other", "namespace": "ns", "uid": "v"}}


def test_outcomes_are_counted_by_probe_and_forgotten_with_the_pod() -> None:
    counts = ProbeCounts()
    for pod, outcome in ((WEB, Outcome.SUCCESS), (WEB, Outcome.SUCCESS), (WEB, Outcome.FAILURE), (OTHER, Outcome.UNKNOWN)):
        counts.count(pod, "main", Kind.READINESS, outcome, 0.02)

    text = counts.registry.expose().decode()
    where = 'container="main",namespace="ns",pod="web",pod_uid="u",probe_type="Readiness"'
    assert f'prober_probe_total{{{where},result="successful"}} 2.0' in text
    assert f'prober_probe_total{{{where},result="failed"}} 1.0' in text
    assert 'result="unknown"' in text
    assert 'prober_probe_duration_seconds_count{container="main",namespace="ns",pod="web",probe_type="Readiness"} 3.0' in text

    counts.forget("u")
    text = counts.registry.expose().decode()
    assert 'pod="web"' not in text
    assert 'pod="other"' in text
