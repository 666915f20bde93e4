"""Selectors of devices."""

import pytest

from apimachinery.cel.device import CompileError, EvaluationError, is_too_complex, selector

DRIVER = "gpu.example.com"
DEVICE = {
    "name": "gpu-0",
    "attributes": {
        "model": {"string": "A100"},
        "cores": {"int": 108},
        "ecc": {"bool": True},
        "driverVersion": {"version": "1.15.2"},
        "other.example.com/index": {"int": 4},
    },
    "capacity": {"memory": {"value": "40Gi"}, "other.example.com/lanes": {"value": "16"}},
}


@pytest.mark.parametrize(
    ("expression", "selected"),
    [
        ("device.driver == 'gpu.example.com'", True),
        ("device.attributes['gpu.example.com'].model == 'A100'", True),
        ("device.attributes['gpu.example.com'].cores > 200", False),
        ("device.attributes['gpu.example.com'].ecc", True),
        ("device.attributes['gpu.example.com'].driverVersion.isGreaterThan(semver('1.9.0'))", True),
        ("device.attributes['other.example.com'].index == 4", True),
        ("device.capacity['gpu.example.com'].memory.compareTo(quantity('40960Mi')) == 0", True),
        ("device.capacity['other.example.com'].lanes.isLessThan(quantity('16'))", False),
        ("has(device.attributes['nobody.example.com'].model)", False),
        ("'nobody.example.com' in device.attributes && device.attributes['nobody.example.com'].model == 'A100'", False),
        ("cel.bind(mine, device.attributes['gpu.example.com'], mine.ecc && mine.cores == 108)", True),
        ("device.allowMultipleAllocations", False),
    ],
)
def test_matches(expression: str, selected: bool) -> None:
    assert selector(expression).matches(DRIVER, DEVICE) is selected


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("device.name == 'gpu-0'", "undefined field 'name'"),
        ("'text'", "must evaluate to bool or the unknown type, not string"),
        ("device.driver ==", "compilation failed"),
    ],
)
def test_what_is_no_selector(expression: str, problem: str) -> None:
    with pytest.raises(CompileError, match=problem):
        selector(expression)


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("device.attributes['gpu.example.com'].missing == 'x'", "no such key: missing"),
        ("device.attributes['nobody.example.com'].missing == 'x'", "no such key: missing"),
        ("device.attributes['gpu.example.com'].model", "could not be converted to bool"),
    ],
)
def test_what_has_no_answer(expression: str, problem: str) -> None:
    with pytest.raises(EvaluationError, match=problem):
        selector(expression).matches(DRIVER, DEVICE)


def test_complexity() -> None:
    loops = "device.attributes.exists(a, " * 5 + "true" + ")" * 5
    assert is_too_complex(selector(loops))
    assert not is_too_complex(selector("device.attributes.exists(a, a == 'x')"))
