import pytest

from apimachinery.objects import taints

TAINT = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        pytest.param({"operator": "Exists"}, True, id="tolerates-everything"),
        pytest.param({"key": "dedicated", "operator": "Exists"}, True, id="any-value"),
        pytest.param({"key": "dedicated", "value": "gpu"}, True, id="equal-is-the-default"),
        pytest.param({"key": "dedicated", "value": "cpu"}, False, id="other-value"),
        pytest.param({"key": "other", "operator": "Exists"}, False, id="other-key"),
        pytest.param({"key": "dedicated", "operator": "Exists", "effect": "NoExecute"}, False, id="other-effect"),
        pytest.param({"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}, True, id="same-effect"),
    ],
)
def test_tolerates(toleration: dict[str, str], expected: bool) -> None:
    assert taints.tolerates(toleration, TAINT) is expected


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        pytest.param([], 0, id="none"),
        pytest.param([{"operator": "Exists"}], None, id="for-ever"),
        pytest.param([{"key": "k", "operator": "Exists", "tolerationSeconds": 300}], 300, id="seconds"),
        pytest.param(
            [{"key": "k", "operator": "Exists", "tolerationSeconds": 300}, {"operator": "Exists", "tolerationSeconds": 5}],
            5,
            id="shortest",
        ),
        pytest.param([{"key": "k", "operator": "Exists", "tolerationSeconds": -5}], 0, id="negative-is-at-once"),
    ],
)
def test_eviction_delay(tolerations: list[dict[str, object]], expected: float | None) -> None:
    assert taints.eviction_delay([{"key": "k", "effect": "NoExecute"}], tolerations) == expected
