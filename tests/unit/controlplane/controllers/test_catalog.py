import click
import pytest

from controlplane.apiserver.authorization import controller_policy
from controlplane.controllers import catalog


def test_names_are_distinct() -> None:
    known = catalog.descriptors()
    assert len({each.name for each in known} | {each.alias for each in known}) == 2 * len(known)


@pytest.mark.parametrize(
    ("wanted", "absent"),
    [
        (["*"], set()),
        (["*", "-nodeipam"], {"node-ipam-controller"}),
        (["*", "-garbage-collector-controller", "-podgc"], {"garbage-collector-controller", "pod-garbage-collector-controller"}),
    ],
)
def test_chosen(wanted: list[str], absent: set[str]) -> None:
    everything = {each.name for each in catalog.descriptors() if each.by_default}
    assert {each.name for each in catalog.chosen(wanted)} == everything - absent


def test_what_is_off_by_default_is_on_when_named() -> None:
    assert "token-cleaner-controller" not in {each.name for each in catalog.chosen(["*"])}
    assert "token-cleaner-controller" in {each.name for each in catalog.chosen(["*", "tokencleaner"])}


def test_only_named_ones() -> None:
    assert [each.name for each in catalog.chosen(["deployment"])] == ["deployment-controller"]


def test_unknown_names_are_refused() -> None:
    with pytest.raises(click.UsageError, match='"nosuch" is not in the list'):
        catalog.chosen(["*", "nosuch"])


def test_every_controller_has_a_role_that_bounds_it() -> None:
    namespaced = {"token-cleaner", "bootstrap-signer", ""}  # and the manager's own
    assert {each.account for each in catalog.descriptors()} <= controller_policy.RULES.keys() | namespaced
