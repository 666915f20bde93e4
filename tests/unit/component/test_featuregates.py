"""Feature gates by upstream's rules and words (k8s.io/component-base/featuregate)."""

from collections import Counter

import click
import pytest

from component.featuregates import ALPHA, BETA, DEPRECATED, GA, Feature, Gates, described, gates
from component.features import DEFAULTS, FEATURES, flag, from_flag
from component.metrics import Registry

KNOWN = (
    Feature("Base", False, ALPHA, here=True),
    Feature("Child", False, ALPHA, here=True, needs=("Base",)),
    Feature("Common", True, BETA, here=True),
    Feature("Rare", False, BETA),
    Feature("Stable", True, GA, locked=True),
    Feature("Going", False, DEPRECATED, here=True),
)


@pytest.mark.parametrize(
    ("wishes", "on"),
    [
        ({}, {"Common", "Stable"}),
        ({"Base": "true"}, {"Base", "Common", "Stable"}),
        ({"Base": "T", "Child": "1"}, {"Base", "Child", "Common", "Stable"}),
        ({"Common": "False"}, {"Stable"}),
        ({"AllAlpha": "true"}, {"Base", "Child", "Common", "Stable"}),
        ({"AllBeta": "true"}, {"Common", "Rare", "Stable"}),
        ({"AllBeta": "false"}, {"Stable"}),
        ({"AllBeta": "false", "Common": "true"}, {"Common", "Stable"}),
        ({"Common": "true", "AllBeta": "false"}, {"Common", "Stable"}),
        ({"Stable": "true"}, {"Common", "Stable"}),
    ],
)
def test_what_is_on(wishes: dict[str, str], on: set[str]) -> None:
    made = gates(KNOWN, wishes)
    assert {feature.name for feature in KNOWN if made.enabled(feature.name)} == on


@pytest.mark.parametrize(
    ("wishes", "message"),
    [
        ({"Nothing": "true"}, "unrecognized feature gate: Nothing"),
        ({"Base": "maybe"}, 'invalid value of Base=maybe, err: strconv.ParseBool: parsing "maybe": invalid syntax'),
        ({"Stable": "false"}, "cannot set feature gate Stable to false, feature is locked to true"),
        ({"Child": "true"}, "Child is enabled, but depends on features that are disabled: [Base]"),
        ({"AllAlpha": "true", "Base": "false"}, "Child is enabled, but depends on features that are disabled: [Base]"),
    ],
)
def test_what_is_refused(wishes: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the message is compared whole
        gates(KNOWN, wishes)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("wishes", "warnings"),
    [
        ({"Base": "true"}, []),
        ({"Stable": "true"}, ["Setting GA feature gate Stable=true. It will be removed in a future release."]),
        ({"Going": "true"}, ["Setting deprecated feature gate Going=true. It will be removed in a future release."]),
        ({"Rare": "true"}, ["Feature gate Rare=true is known but changes nothing here."]),
        ({"Rare": "false"}, []),
    ],
)
def test_what_is_warned_about(wishes: dict[str, str], warnings: list[str]) -> None:
    assert list(gates(KNOWN, wishes).warnings) == warnings


def test_an_unknown_gate_cannot_be_asked() -> None:
    with pytest.raises(KeyError):
        DEFAULTS.enabled("Nothing")


def test_the_metric_tells_stage_and_enablement() -> None:
    metrics = Registry(process=False)
    gates(KNOWN, {"Base": "true"}).expose(metrics)
    lines = metrics.expose().decode().splitlines()
    assert 'kubernetes_feature_enabled{name="Base",stage="ALPHA"} 1.0' in lines
    assert 'kubernetes_feature_enabled{name="Child",stage="ALPHA"} 0.0' in lines
    assert 'kubernetes_feature_enabled{name="Stable",stage=""} 1.0' in lines


def test_the_table_names_each_gate_once_and_its_needs_exist() -> None:
    counted = Counter(feature.name for feature in FEATURES)
    assert [name for name, count in counted.items() if count > 1] == []
    assert {other for feature in FEATURES for other in feature.needs} <= set(counted)


def test_alpha_is_off_and_everything_can_be_on() -> None:
    assert not [one.name for one in FEATURES if one.stage == ALPHA and one.default]
    made = from_flag({"AllAlpha": "true", "AllBeta": "true"})
    assert all(made.enabled(one.name) for one in FEATURES if one.stage in (ALPHA, BETA))


def test_the_help_lists_what_can_be_changed() -> None:
    text = described(KNOWN)
    assert "Common=true|false (BETA - default=true)" in text
    assert "Rare" not in text
    assert "Stable" not in text


def parsed(*arguments: str) -> Gates:
    found: Gates = click.Command("x", params=[flag()]).make_context("x", list(arguments)).params["feature_gates"]
    return found


def test_the_flag_may_be_repeated_and_name_its_component() -> None:
    made = parsed("--feature-gates=GenericWorkload=true,WatchList=false", "--feature-gates=kube:HPAScaleToZero=true")
    assert made.values == {"GenericWorkload": True, "WatchList": False, "HPAScaleToZero": True}
    assert parsed().values == {}


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("wardle:A=true", "component not registered: wardle"),
        ("A", "'A' must have the form key=value"),
        ("A=true", "unrecognized feature gate: A"),
    ],
)
def test_the_flag_says_what_it_does_not_take(argument: str, message: str) -> None:
    with pytest.raises(click.BadParameter) as refused:
        parsed(f"--feature-gates={argument}")
    assert refused.value.message == message
