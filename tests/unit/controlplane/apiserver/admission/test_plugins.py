"""Each admission plugin by itself."""

from typing import Any

import pytest

from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.admission.interface import CREATE, Attributes
from controlplane.apiserver.admission.plugins.default_toleration_seconds import DefaultTolerationSeconds
from controlplane.apiserver.admission.plugins.namespace_lifecycle import NamespaceLifecycle
from controlplane.apiserver.admission.plugins.priority import Priority
from controlplane.apiserver.admission.plugins.service_account import MOUNT_PATH, ServiceAccount
from controlplane.apiserver.admission.plugins.taint_nodes_by_condition import TaintNodesByCondition
from controlplane.apiserver.authentication.interface import UserInfo

Objects = dict[tuple[str, str, str], dict[str, Any]]


def lookup_in(objects: Objects) -> Any:
    async def lookup(resource: str, namespace: str, name: str) -> dict[str, Any] | None:
        return objects.get((resource, namespace, name))

    return lookup


def pod(**spec: Any) -> Attributes:
    obj = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}], **spec}}
    return Attributes(CREATE, GroupVersionKind("", "v1", "Pod"), "pods", "", "n", "p", obj, None, UserInfo("u"))


ACCOUNT: Objects = {("serviceaccounts", "n", "default"): {"metadata": {"name": "default"}, "imagePullSecrets": [{"name": "s"}]}}


async def test_pods_get_their_account_and_its_token() -> None:
    attributes = pod()
    await ServiceAccount(lookup_in(ACCOUNT)).mutate(attributes)
    assert attributes.obj is not None
    spec = attributes.obj["spec"]
    assert spec["serviceAccountName"] == "default"
    assert spec["imagePullSecrets"] == [{"name": "s"}]
    (volume,) = spec["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    assert spec["containers"][0]["volumeMounts"] == [{"mountPath": MOUNT_PATH, "name": volume["name"], "readOnly": True}]
    assert volume["projected"]["sources"][0]["serviceAccountToken"] == {"expirationSeconds": 3607, "path": "token"}


async def test_no_token_for_those_who_want_none() -> None:
    attributes = pod(automountServiceAccountToken=False)
    await ServiceAccount(lookup_in(ACCOUNT)).mutate(attributes)
    assert attributes.obj is not None
    assert "volumes" not in attributes.obj["spec"]


async def test_a_mount_of_their_own_is_left_alone() -> None:
    mine = [{"mountPath": MOUNT_PATH, "name": "mine"}]
    attributes = pod(containers=[{"name": "c", "volumeMounts": mine}])
    await ServiceAccount(lookup_in(ACCOUNT)).mutate(attributes)
    assert attributes.obj is not None
    assert attributes.obj["spec"]["containers"][0]["volumeMounts"] == mine
    assert "volumes" not in attributes.obj["spec"]


async def test_an_account_must_exist() -> None:
    with pytest.raises(StatusError) as refusal:
        await ServiceAccount(lookup_in({})).mutate(pod())
    assert refusal.value.code == 403
    assert 'error looking up service account n/default: serviceaccount "default" not found' in refusal.value.message


async def test_tolerations_are_added_where_they_are_missing() -> None:
    mine = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    attributes = pod(tolerations=[mine])
    await DefaultTolerationSeconds().mutate(attributes)
    assert attributes.obj is not None
    assert [one["tolerationSeconds"] for one in attributes.obj["spec"]["tolerations"]] == [5, 300]


@pytest.mark.parametrize(
    ("name", "value"), [("", 0), ("system-node-critical", 2000001000), ("gold", 7)], ids=["none", "built-in", "own"]
)
async def test_priorities_come_from_classes(name: str, value: int) -> None:
    attributes = pod(priorityClassName=name)
    await Priority(lookup_in({("priorityclasses.scheduling.k8s.io", "", "gold"): {"value": 7}})).mutate(attributes)
    assert attributes.obj is not None
    assert attributes.obj["spec"]["priority"] == value


async def test_a_priority_of_ones_own_is_refused() -> None:
    with pytest.raises(StatusError, match="must not be provided in pod spec"):
        await Priority(lookup_in({})).mutate(pod(priority=1000))
    with pytest.raises(StatusError, match="no PriorityClass with name lead was found"):
        await Priority(lookup_in({})).mutate(pod(priorityClassName="lead"))


async def test_nothing_is_born_in_a_dying_namespace() -> None:
    going = {"metadata": {"name": "n"}, "status": {"phase": "Terminating"}}
    with pytest.raises(StatusError) as refusal:
        await NamespaceLifecycle(lookup_in({("namespaces", "", "n"): going})).mutate(pod())
    assert "because it is being terminated" in refusal.value.message
    assert refusal.value.status["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    with pytest.raises(StatusError, match='namespaces "n" not found'):
        await NamespaceLifecycle(lookup_in({})).mutate(pod())


async def test_new_nodes_take_no_pods_until_they_are_seen_ready() -> None:
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    for given in ([], [{"key": "a", "effect": "NoSchedule"}], [taint]):
        node = {"metadata": {"name": "n"}, "spec": {"taints": list(given)}}
        attributes = Attributes(CREATE, GroupVersionKind("", "v1", "Node"), "nodes", "", "", "n", node, None, UserInfo("u"))
        await TaintNodesByCondition().mutate(attributes)
        assert node["spec"]["taints"] == [*(one for one in given if one != taint), taint]
