"""What kubelets say, and rates between two answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.apiserver.resource_metrics import samples
from controlplane.apiserver.resource_metrics.samples import Answer, Point, Rate

TEXT = """# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{container="main",namespace="ns",pod="web"} 1.5 1700000000000
container_cpu_usage_seconds_total{container="lost",namespace="ns",pod="web"} 1.5 1700000000000
# TYPE container_memory_working_set_bytes gauge
container_memory_working_set_bytes{container="main",namespace="ns",pod="web"} 2048 1700000000000
# TYPE node_cpu_usage_seconds_total counter
node_cpu_usage_seconds_total 77.25
# TYPE node_memory_working_set_bytes gauge
node_memory_working_set_bytes 1048576
# TYPE pod_cpu_usage_seconds_total counter
pod_cpu_usage_seconds_total{namespace="ns",pod="web"} 3 1700000000000
# TYPE resource_scrape_error gauge
resource_scrape_error 0
"""


def test_an_answer_is_read() -> None:
    found = samples.parse(TEXT, received=1700000005.0)

    assert found.node == Point(1700000005.0, 77.25, 1 << 20)
    assert found.containers == {("ns", "web", "main"): Point(1700000000.0, 1.5, 2048)}, "half a pair is nothing"


@pytest.mark.parametrize("text", ["container_cpu{", "# TYPE x y\nx 1"])
def test_what_is_no_answer_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        samples.parse(text, 0.0)


def test_an_empty_answer_says_nothing() -> None:
    assert samples.parse("", 0.0) == Answer()


def test_a_rate_needs_two_points_of_one_life() -> None:
    first, second = Point(100.0, 10.0, 5), Point(102.0, 11.0, 7)

    assert samples.rate(first, second) == Rate(102.0, 2.0, 500_000_000, 7)
    assert samples.rate(None, second) is None
    assert samples.rate(second, second) is None
    assert samples.rate(Point(100.0, 50.0, 5), second) is None, "it was started anew"


@given(st.floats(0, 1e6), st.floats(0.001, 1e5), st.floats(0, 1e6), st.floats(0, 1e6))
def test_rates_are_never_negative(at: float, later: float, cpu: float, more: float) -> None:
    found = samples.rate(Point(at, cpu, 0), Point(at + later, cpu + more, 0))
    assert found is None or (found.cpu >= 0 and found.window > 0)
