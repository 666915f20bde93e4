from pathlib import Path

import click
import pytest

from controlplane.apiserver.authorization import controller_policy
from controlplane.controllers import catalog

UPSTREAM = """
    serviceaccount-token-controller endpoints-controller endpointslice-controller
    endpointslice-mirroring-controller replicationcontroller-controller pod-garbage-collector-controller
    resourcequota-controller namespace-controller serviceaccount-controller garbage-collector-controller
    daemonset-controller job-controller deployment-controller replicaset-controller
    horizontal-pod-autoscaler-controller disruption-controller statefulset-controller cronjob-controller
    certificatesigningrequest-signing-controller certificatesigningrequest-approving-controller
    certificatesigningrequest-cleaner-controller podcertificaterequest-cleaner-controller ttl-controller
    bootstrap-signer-controller token-cleaner-controller node-ipam-controller node-lifecycle-controller
    taint-eviction-controller persistentvolume-binder-controller persistentvolume-attach-detach-controller
    persistentvolume-expander-controller clusterrole-aggregation-controller
    persistentvolumeclaim-protection-controller persistentvolume-protection-controller
    podgroup-protection-controller volumeattributesclass-protection-controller ttl-after-finished-controller
    root-ca-certificate-publisher-controller kube-apiserver-serving-clustertrustbundle-publisher-controller
    ephemeral-volume-controller storageversion-garbage-collector-controller resourceclaim-controller
    device-taint-eviction-controller resourcepoolstatusrequest-controller
    legacy-serviceaccount-token-cleaner-controller validatingadmissionpolicy-status-controller
    service-cidr-controller storage-version-migrator-controller selinux-warning-controller service-lb-controller
    node-route-controller cloud-node-lifecycle-controller
"""  # cmd/kube-controller-manager/names/controller_names.go of v1.36, and those of the cloud provider


@pytest.mark.parametrize("name", UPSTREAM.split())
def test_every_name_of_upstreams_is_known(name: str) -> None:
    assert all(each.name != name for each in catalog.chosen(["*", f"-{name}"]))
    assert [each.name for each in catalog.chosen([name])] in ([name], [])


def test_every_controller_is_in_the_page_about_them() -> None:
    page = Path(__file__, "../../../../../docs/controllers.md").resolve().read_text()
    for name in UPSTREAM.split():
        short = name.removesuffix("-controller")
        assert f"`{short}`" in page or f"`-{short.rpartition('-')[2]}`" in page, name


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
