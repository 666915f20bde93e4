"""``why`` against a real API server with controllers and scheduler: the whole chain from the objects that they write."""

import asyncio
import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from apimachinery.gvk import GroupVersionResource
from apimachinery.meta import Object
from apimachinery.resources import CONFIG_MAPS, DEPLOYMENTS, NAMESPACES, PODS, RESOURCE_QUOTAS, SERVICES
from cli.why import why
from client.rest import Client
from tests.support.apiserver import TestServer, running_apiserver
from tests.support.control_plane import add_node, control_plane, eventually

BINDINGS = GroupVersionResource("rbac.authorization.k8s.io", "v1", "rolebindings")
API_SERVICES = GroupVersionResource("apiregistration.k8s.io", "v1", "apiservices")


def template(cpu: str, **labels: str) -> Object:
    container = {"name": "c", "image": "web:1", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"labels": labels}, "spec": {"containers": [container]}}


def named(kind: str, name: str, spec: Object, version: str = "v1") -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def deployment(name: str, cpu: str) -> Object:
    selector = {"matchLabels": {"app": name}}
    return named("Deployment", name, {"replicas": 2, "selector": selector, "template": template(cpu, app=name)}, "apps/v1")


async def ask(server: TestServer, *arguments: str, token: str = "") -> Result:
    config = server.kubeconfig_for(token) if token else server.kubeconfig
    return await asyncio.to_thread(CliRunner().invoke, why, [*arguments, "--kubeconfig", str(config)], env={"COLUMNS": "140"})


async def says(server: TestServer, words: list[str], *arguments: str, token: str = "", code: int = 1) -> str:
    """Ask until the answer has all these words: controllers need a moment."""

    async def look() -> str:
        answer = await ask(server, *arguments, token=token)
        shown = " ".join(answer.output.replace("│", " ").split())
        assert [each for each in words if each not in shown] == [], answer.output
        assert answer.exit_code == code, answer.output
        return answer.output

    return str(await eventually(look, within=30))


async def viewer(client: Client) -> None:
    """Who may see the namespace, and nothing else."""
    subject = {"kind": "User", "name": "nobody-special", "apiGroup": BINDINGS.group}
    role = {"kind": "ClusterRole", "name": "view", "apiGroup": BINDINGS.group}
    binding = named("RoleBinding", "view", {}, f"{BINDINGS.group}/v1") | {"subjects": [subject], "roleRef": role}
    await client.create(BINDINGS, {key: value for key, value in binding.items() if key != "spec"})


@pytest.mark.slow
async def test_chains_of_causes_on_a_live_cluster() -> None:
    async with running_apiserver() as server, control_plane(server) as client:
        await add_node(client, cpu="4")
        await client.create(RESOURCE_QUOTAS, named("ResourceQuota", "team", {"hard": {"requests.cpu": "30"}}))
        await client.create(DEPLOYMENTS, deployment("large", "8"))
        await client.create(SERVICES, named("Service", "shop", {"selector": {"app": "larg"}, "ports": [{"port": 80}]}))
        await viewer(client)

        await says(
            server,
            ["0 of 2 pods available", "replicaset/large-", "1 more alike", "1 of 1 node: Insufficient cpu", "4 free of 4"],
            "deploy/large",
        )
        await says(server, ["matches no pod in default", "near: app=large on 2 pods", "'app=large'"], "svc/shop")

        await client.create(DEPLOYMENTS, deployment("refused", "20"))
        await says(
            server,
            ["refused by a ResourceQuota", "resourcequota/team", "requests.cpu: ", " of 30 used"],
            "deployments.apps/refused",
        )

        shown = await says(server, ["the scheduler's last word", "Insufficient cpu"], "deploy/large", token="viewer-token")
        assert "note: nodes may not be read" in shown

        rights = ("--as", "nobody-special", "can-not", "delete", "pods")
        shown = await says(server, ["may not delete pods in namespace default", "but not the verb delete"], *rights)
        assert "not given to the user: ClusterRole edit, ClusterRole admin" in shown
        assert "kubectl create rolebinding NAME --clusterrole=edit --user=nobody-special -n default" in shown
        await says(server, ["may get pods 'large' in namespace default"], *rights[:3], "get", "po/large", code=0)

        everything = json.loads((await ask(server, "--all", "-o", "json")).output)
        told = [each["subject"] for each in everything["explanations"]]
        assert {"deployment/large", "deployment/refused", "service/shop"} <= set(told)
        assert not [each for each in told if each.startswith(("pod/", "replicaset/"))], "owners tell of what they own"


@pytest.mark.slow
async def test_what_is_not_there_and_what_is_well() -> None:
    async with running_apiserver() as server, control_plane(server, schedule=False) as client:
        await client.create(PODS, named("Pod", "gated", template("1")["spec"] | {"schedulingGates": [{"name": "example.com/g"}]}))
        dead: dict[str, Any] = {"group": "dead.example", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10}
        dead["service"] = {"namespace": "default", "name": "gone", "port": 443}
        made = named("APIService", "v1.dead.example", dead, "apiregistration.k8s.io/v1")
        del made["metadata"]["namespace"]
        await client.create(API_SERVICES, made)

        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "old"}})
        held: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "namespace": "old"}}
        held["metadata"]["finalizers"] = ["example.com/x"]
        await client.create(CONFIG_MAPS, held)
        await client.delete(NAMESPACES, "old")

        missing = await ask(server, "pod/nothing")
        assert (missing.exit_code, 'pods "nothing" not found' in missing.output) == (3, True)
        assert (await ask(server, "pod/a", "--all")).exit_code == 2
        unknown = await ask(server, "gizmo/x")
        assert (unknown.exit_code, 'resource type "gizmo"' in unknown.output) == (3, True)
        await says(server, ["Active", "nothing is wrong with it"], "ns/default", code=0)
        await says(server, ["Terminating for", "configmaps/held is held", "finalizer example.com/x is not removed"], "ns/old")
        await says(server, ["scheduling gates hold it back: example.com/g"], "po/gated")
        await says(
            server, ["the aggregator: ServiceNotFound", "service/gone in default does not exist"], "apiservice/v1.dead.example"
        )
