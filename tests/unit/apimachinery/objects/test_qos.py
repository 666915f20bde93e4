from typing import Any

import pytest

from apimachinery.objects import qos

BOTH = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        pytest.param([{}], "BestEffort", id="nothing"),
        pytest.param([{"requests": {"cpu": "0"}}], "BestEffort", id="zero-is-nothing"),
        pytest.param([{"requests": {"nvidia.com/gpu": "1"}}], "BestEffort", id="other-resources-do-not-count"),
        pytest.param([{"limits": BOTH, "requests": BOTH}], "Guaranteed", id="equal"),
        pytest.param([{"limits": BOTH, "requests": {"cpu": "1000m", "memory": "1024Mi"}}], "Guaranteed", id="other-spelling"),
        pytest.param([{"limits": BOTH, "requests": {"cpu": "500m", "memory": "1Gi"}}], "Burstable", id="less"),
        pytest.param([{"limits": BOTH}, {}], "Burstable", id="one-of-two"),
        pytest.param([{"requests": {"memory": "1Mi"}}], "Burstable", id="requests-only"),
    ],
)
def test_qos(resources: list[dict[str, Any]], expected: str) -> None:
    assert qos.qos_class({"spec": {"containers": [{"resources": each} for each in resources]}}) == expected
