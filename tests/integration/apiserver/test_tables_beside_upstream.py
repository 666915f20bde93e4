"""The same objects in our server and in upstream's own: ``kubectl get -o wide`` shows the same rows.

Upstream is v1.20.2; ``NEWER`` names the columns in which a later release differs on purpose, with the release.
"""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.apiserver import Answer, TestServer
from tests.support.upstream import upstream_apiserver

Object = dict[str, Any]
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
AGES = frozenset({"Age", "Last Seen", "First Seen", "Created At", "Last Schedule", "Duration"})
AGE = re.compile(r"(\d+[smhdy])+$|<unknown>$|<none>$|$|\d{4}-\d\d-\d\dT")
NEWER: dict[str, frozenset[str]] = {
    "cronjobs": frozenset({"Timezone"}),  # 1.28
    "jobs": frozenset({"Status", "Selector"}),  # 1.31; 1.27 prefixed the label that the selector names
    "horizontalpodautoscalers": frozenset({"Targets"}),  # 1.31 names the metric
    "apiservices": frozenset({"Available"}),  # upstream's own controller looks for the service meanwhile
    "resourcequotas": frozenset({"Age"}),  # 1.31 moved it to the end
    "persistentvolumes": frozenset({"VolumeAttributesClass"}),  # 1.29
    "persistentvolumeclaims": frozenset({"VolumeAttributesClass"}),
    "priorityclasses": frozenset({"PreemptionPolicy"}),  # 1.31
    "csidrivers": frozenset({"StorageCapacity", "TokenRequests", "RequiresRepublish"}),  # 1.21, 1.22
    "certificatesigningrequests": frozenset({"RequestedDuration"}),  # 1.22
    "pods": frozenset({"Restarts"}),  # 1.22 tells when; as text
}
POD = {"containers": [{"name": "a", "image": "x:1"}, {"name": "b", "image": "y:1"}]}
INITS = {**POD, "initContainers": [{"name": "i", "image": "x:1"}, {"name": "j", "image": "x:1"}]}
LABELS = {"matchLabels": {"app": "a"}}
TEMPLATE = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "a", "image": "x:1"}]}}
MINUTE_AGO = "2021-01-01T00:00:00Z"


def running(name: str, restarts: int = 0, ready: bool = True) -> Object:
    return status_of(name, {"running": {"startedAt": MINUTE_AGO}}, restarts, ready)


def status_of(name: str, state: Object, restarts: int = 0, ready: bool = False) -> Object:
    return {"name": name, "image": "x:1", "imageID": "", "ready": ready, "restartCount": restarts, "state": state}


def ended(code: int, reason: str = "", number: int = 0) -> Object:
    return {"terminated": {"exitCode": code, "reason": reason, "signal": number}}


def waiting(reason: str) -> Object:
    return {"waiting": {"reason": reason}}


def containers(*statuses: Object, phase: str = "Running", **more: Any) -> Object:
    return {"phase": phase, "containerStatuses": list(statuses), **more}


# what is created, by collection: (name, body without metadata, status)
CASES: dict[str, list[tuple[str, Object, Object | None]]] = {
    "/api/v1/namespaces/default/pods": [
        ("fresh", {"spec": POD}, None),
        ("running", {"spec": POD}, containers(running("a"), running("b"), podIP="10.0.0.1", podIPs=[{"ip": "10.0.0.1"}])),
        ("restarted", {"spec": POD}, containers(running("a", 3), running("b", 1))),
        ("half", {"spec": POD}, containers(running("a"), running("b", ready=False))),
        ("crashing", {"spec": POD}, containers(status_of("a", waiting("CrashLoopBackOff"), 5), running("b"))),
        ("pulling", {"spec": POD}, containers(status_of("a", waiting("ImagePullBackOff")), phase="Pending")),
        ("completed", {"spec": POD}, containers(*(status_of(name, ended(0, "Completed")) for name in "ab"), phase="Succeeded")),
        ("partly", {"spec": POD}, containers(status_of("a", ended(0, "Completed")), running("b"))),
        ("failed", {"spec": POD}, containers(status_of("a", ended(1, "Error")), phase="Failed")),
        ("exit", {"spec": POD}, containers(status_of("a", ended(3)), phase="Failed")),
        ("signal", {"spec": POD}, containers(status_of("a", ended(137, number=9)), phase="Failed")),
        ("oom", {"spec": POD}, containers(status_of("a", ended(137, "OOMKilled")), phase="Failed")),
        ("evicted", {"spec": POD}, {"phase": "Failed", "reason": "Evicted"}),
        ("bound", {"spec": {**POD, "nodeName": "node-1"}}, {"phase": "Pending", "nominatedNodeName": "node-2"}),
        ("init0", {"spec": INITS}, {"phase": "Pending", "initContainerStatuses": [status_of("i", waiting("PodInitializing"))]}),
        (
            "init1",
            {"spec": INITS},
            {"phase": "Pending", "initContainerStatuses": [status_of("i", ended(0, "Completed")), running("j", ready=False)]},
        ),
        (
            "initcrash",
            {"spec": INITS},
            {"phase": "Pending", "initContainerStatuses": [status_of("i", waiting("CrashLoopBackOff"))]},
        ),
        ("initerror", {"spec": INITS}, {"phase": "Pending", "initContainerStatuses": [status_of("i", ended(2))]}),
        ("initsignal", {"spec": INITS}, {"phase": "Pending", "initContainerStatuses": [status_of("i", ended(2, number=15))]}),
        (
            "gated",
            {"spec": {**POD, "readinessGates": [{"conditionType": "x/a"}, {"conditionType": "x/b"}]}},
            {"phase": "Running", "conditions": [{"type": "x/a", "status": "True"}]},
        ),
    ],
    "/api/v1/namespaces/default/services": [
        ("plain", {"spec": {"clusterIP": "10.96.5.1", "selector": {"b": "c", "a": "b"}, "ports": [{"port": 80}]}}, None),
        ("headless", {"spec": {"clusterIP": "None"}}, None),
        ("outside", {"spec": {"type": "ExternalName", "externalName": "example.com"}}, None),
        (
            "many",
            {
                "spec": {
                    "clusterIP": "10.96.5.2",
                    "type": "NodePort",
                    "externalIPs": ["192.0.2.1", "192.0.2.2"],
                    "ports": [
                        {"name": "a", "port": 53, "protocol": "UDP", "nodePort": 30053},
                        {"name": "b", "port": 53, "nodePort": 30054},
                    ],
                }
            },
            None,
        ),
        (
            "balanced",
            {"spec": {"clusterIP": "10.96.5.3", "type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30080}]}},
            {"loadBalancer": {"ingress": [{"ip": "192.0.2.9"}, {"hostname": "a-very-long-name-of-a-balancer.example.com"}]}},
        ),
        (
            "pending",
            {"spec": {"clusterIP": "10.96.5.4", "type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30081}]}},
            None,
        ),
    ],
    "/api/v1/nodes": [
        ("n1", {}, None),
        (
            "n2",
            {
                "metadata": {"labels": {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/edge": ""}},
                "spec": {"unschedulable": True},
            },
            {
                "conditions": [{"type": "Ready", "status": "True"}],
                "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}, {"type": "ExternalIP", "address": "198.51.100.1"}],
                "nodeInfo": {
                    **dict.fromkeys(
                        ("machineID", "systemUUID", "bootID", "kubeProxyVersion", "operatingSystem", "architecture"), "x"
                    ),
                    "kernelVersion": "5.10",
                    "osImage": "Debian",
                    "containerRuntimeVersion": "containerd://1.6",
                    "kubeletVersion": "v1.36.0",
                },
            },
        ),
        (
            "n3",
            {"metadata": {"labels": {"kubernetes.io/role": "boss"}}},
            {"conditions": [{"type": "Ready", "status": "Unknown"}]},
        ),
    ],
    "/api/v1/namespaces/default/endpoints": [
        ("none", {}, None),
        ("headless", {"subsets": [{"addresses": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]}]}, None),
        (
            "many",
            {
                "subsets": [
                    {
                        "addresses": [{"ip": f"10.0.0.{n}"} for n in range(1, 4)],
                        "ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}],
                    }
                ]
            },
            None,
        ),
    ],
    "/api/v1/namespaces/default/secrets": [("s", {"stringData": {"a": "b", "c": "d"}}, None)],
    "/api/v1/namespaces/default/configmaps": [
        ("c", {"data": {"a": "b"}, "binaryData": {"c": "ZA=="}}, None),
        ("empty", {}, None),
    ],
    "/api/v1/namespaces/default/serviceaccounts": [("a", {"secrets": [{"name": "x"}]}, None)],
    "/api/v1/namespaces/default/limitranges": [("l", {"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}}, None)],
    "/api/v1/namespaces/default/podtemplates": [("t", {"template": TEMPLATE}, None)],
    "/api/v1/namespaces/default/replicationcontrollers": [
        ("r", {"spec": {"replicas": 2, "selector": {"app": "a"}, "template": TEMPLATE}}, {"replicas": 2, "readyReplicas": 1})
    ],
    "/api/v1/persistentvolumes": [
        (
            "v",
            {
                "spec": {
                    "capacity": {"storage": "1Gi"},
                    "accessModes": ["ReadWriteMany", "ReadWriteOnce", "ReadOnlyMany"],
                    "hostPath": {"path": "/x"},
                    "storageClassName": "fast",
                    "claimRef": {"namespace": "default", "name": "c"},
                }
            },
            {"phase": "Bound"},
        )
    ],
    "/api/v1/namespaces/default/persistentvolumeclaims": [
        (
            "c",
            {
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                    "storageClassName": "fast",
                    "volumeName": "v",
                }
            },
            {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]},
        )
    ],
    "/apis/apps/v1/namespaces/default/deployments": [
        (
            "d",
            {"spec": {"replicas": 3, "selector": LABELS, "template": TEMPLATE}},
            {"replicas": 3, "updatedReplicas": 2, "readyReplicas": 1, "availableReplicas": 1},
        )
    ],
    "/apis/apps/v1/namespaces/default/replicasets": [
        ("r", {"spec": {"replicas": 2, "selector": LABELS, "template": TEMPLATE}}, {"replicas": 2, "readyReplicas": 1})
    ],
    "/apis/apps/v1/namespaces/default/statefulsets": [
        (
            "s",
            {"spec": {"serviceName": "x", "selector": LABELS, "template": TEMPLATE}},
            {"replicas": 1, "readyReplicas": 1},
        )
    ],
    "/apis/apps/v1/namespaces/default/daemonsets": [
        (
            "d",
            {
                "spec": {
                    "selector": LABELS,
                    "template": {**TEMPLATE, "spec": {**TEMPLATE["spec"], "nodeSelector": {"disk": "ssd"}}},
                }
            },
            {
                "desiredNumberScheduled": 3,
                "currentNumberScheduled": 3,
                "numberReady": 1,
                "updatedNumberScheduled": 2,
                "numberAvailable": 1,
                "numberMisscheduled": 0,
            },
        )
    ],
    "/apis/apps/v1/namespaces/default/controllerrevisions": [
        (
            "r",
            {
                "revision": 3,
                "data": {},
                "metadata": {
                    "ownerReferences": [
                        {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "u", "controller": True}
                    ]
                },
            },
            None,
        )
    ],
    "/apis/batch/v1/namespaces/default/jobs": [
        ("one", {"spec": {"template": {"spec": {**POD, "restartPolicy": "Never"}}}}, None),
        (
            "done",
            {"spec": {"completions": 3, "template": {"spec": {**POD, "restartPolicy": "Never"}}}},
            {"succeeded": 2, "startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:03:05Z"},
        ),
        ("parallel", {"spec": {"parallelism": 4, "template": {"spec": {**POD, "restartPolicy": "Never"}}}}, {"succeeded": 1}),
    ],
    "/apis/networking.k8s.io/v1/namespaces/default/ingresses": [
        (
            "i",
            {
                "spec": {
                    "ingressClassName": "c",
                    "tls": [{"hosts": ["a.example"]}],
                    "rules": [{"host": f"{name}.example"} for name in "abcd"],
                    "defaultBackend": {"service": {"name": "s", "port": {"number": 80}}},
                }
            },
            {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}},
        ),
        ("bare", {"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}}, None),
    ],
    "/apis/networking.k8s.io/v1/ingressclasses": [
        (
            "c",
            {"spec": {"controller": "example.com/x", "parameters": {"apiGroup": "k8s.example", "kind": "P", "name": "p"}}},
            None,
        )
    ],
    "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies": [
        ("p", {"spec": {"podSelector": LABELS}}, None),
        ("all", {"spec": {"podSelector": {}}}, None),
    ],
    "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers": [
        (
            "h",
            {
                "spec": {
                    "maxReplicas": 5,
                    "targetCPUUtilizationPercentage": 80,
                    "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
                }
            },
            {"currentReplicas": 2, "desiredReplicas": 2, "currentCPUUtilizationPercentage": 40},
        ),
        (
            "unknown",
            {"spec": {"maxReplicas": 5, "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}}},
            None,
        ),
    ],
    "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings": [
        (
            "b",
            {
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
                "subjects": [
                    {"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"},
                    {"kind": "Group", "name": "g", "apiGroup": "rbac.authorization.k8s.io"},
                    {"kind": "ServiceAccount", "name": "a", "namespace": "n"},
                ],
            },
            None,
        )
    ],
    "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles": [("r", {"rules": []}, None)],
    "/apis/storage.k8s.io/v1/storageclasses": [
        ("s", {"provisioner": "p"}, None),
        (
            "default",
            {
                "provisioner": "p",
                "allowVolumeExpansion": True,
                "reclaimPolicy": "Retain",
                "metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            },
            None,
        ),
    ],
    "/apis/storage.k8s.io/v1/csinodes": [("n1", {"spec": {"drivers": [{"name": "d", "nodeID": "x"}]}}, None)],
    "/apis/storage.k8s.io/v1/csidrivers": [("d.example", {"spec": {"volumeLifecycleModes": ["Persistent", "Ephemeral"]}}, None)],
    "/apis/storage.k8s.io/v1/volumeattachments": [
        ("a", {"spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}}}, None)
    ],
    "/apis/scheduling.k8s.io/v1/priorityclasses": [("p", {"value": 5, "globalDefault": False}, None)],
    "/apis/node.k8s.io/v1/runtimeclasses": [("r", {"handler": "h"}, None)],
    "/apis/coordination.k8s.io/v1/namespaces/default/leases": [("l", {"spec": {"holderIdentity": "me"}}, None)],
    "/api/v1/namespaces/default/resourcequotas": [
        (
            "q",
            {"spec": {"hard": {"pods": "3", "limits.cpu": "2"}}},
            {"hard": {"pods": "3", "limits.cpu": "2"}, "used": {"pods": "1", "limits.cpu": "0"}},
        )
    ],
    "/api/v1/namespaces/default/events": [
        (
            "e",
            {
                "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default", "fieldPath": "spec.containers{a}"},
                "type": "Warning",
                "reason": "BackOff",
                "message": " Back-off \n",
                "source": {"component": "kubelet", "host": "n1"},
                "count": 3,
                "firstTimestamp": "2026-01-01T00:00:00Z",
                "lastTimestamp": "2026-01-01T00:03:05Z",
            },
            None,
        )
    ],
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations": [
        (
            "w",
            {
                "webhooks": [
                    {
                        "name": "a.b.example",
                        "admissionReviewVersions": ["v1"],
                        "sideEffects": "None",
                        "failurePolicy": "Ignore",
                        "clientConfig": {"url": "https://127.0.0.1:1/x"},
                    }
                ]
            },
            None,
        )
    ],
    "/apis/apiregistration.k8s.io/v1/apiservices": [
        (
            "v1.x.example",
            {
                "spec": {
                    "group": "x.example",
                    "version": "v1",
                    "groupPriorityMinimum": 10,
                    "versionPriority": 10,
                    "service": {"namespace": "default", "name": "s"},
                    "insecureSkipTLSVerify": True,
                }
            },
            None,
        )
    ],
}


async def table_of(server: TestServer, collection: str) -> Object:
    for name, body, status in CASES[collection]:
        made = {**body, "metadata": {**body.get("metadata", {}), "name": name}}
        answer = await server.request("POST", collection, made)
        assert answer.status == 201, (server.url, collection, name, answer.body)
        if status is not None:
            path = f"{collection}/{name}/status"
            patched = await server.request("PATCH", path, {"status": status}, content_type="application/merge-patch+json")
            assert patched.status == 200, (server.url, path, patched.body)
    listed: Answer = await server.request("GET", f"{collection}?includeObject=None", headers={"Accept": TABLE})
    assert listed.status == 200, listed.body
    table: Object = listed.json
    return table


def comparable(table: Object, collection: str, names: set[str]) -> dict[str, Any]:
    """By row: the cells that both can have, by column; ages only as that."""
    newer = NEWER.get(collection.rpartition("/")[2], frozenset())
    columns = [column["name"] for column in table["columnDefinitions"]]
    rows = {}
    for row in table["rows"]:
        cells = dict(zip(columns, row["cells"], strict=True))
        for name in AGES & set(cells):
            assert AGE.match(str(cells[name])), (name, cells)
            cells[name] = "age" if cells[name] not in ("", "<none>", "<unknown>") else cells[name]
        if cells["Name"].split(" ")[0] in names:
            rows[cells["Name"]] = {name: cell for name, cell in cells.items() if name not in newer}
            rows[cells["Name"]]["conditions"] = row.get("conditions")
    return rows


def declared(table: Object, collection: str) -> list[tuple[str, ...]]:
    newer = NEWER.get(collection.rpartition("/")[2], frozenset())
    listed = [(one["name"], one["type"], one["format"], one["priority"]) for one in table["columnDefinitions"]]
    return [one for one in listed if one[0] not in newer]


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_every_table_is_upstreams(server: TestServer, tmp_path: Path) -> None:
    differences = []
    account = {"metadata": {"name": "default"}}  # upstream runs without the plugin that wants it
    assert (await server.request("POST", "/api/v1/namespaces/default/serviceaccounts", account)).status == 201
    async with upstream_apiserver(tmp_path) as upstream:
        for collection in CASES:
            ours, theirs = await table_of(server, collection), await table_of(upstream, collection)
            names = {name for name, _, _ in CASES[collection]}
            if declared(ours, collection) != declared(theirs, collection):
                differences.append((collection, declared(ours, collection), declared(theirs, collection)))
            rows, expected = comparable(ours, collection, names), comparable(theirs, collection, names)
            differences += [(collection, rows.get(name), row) for name, row in expected.items() if rows.get(name) != row]
    assert not differences, "\n".join(f"{where}\n  ours   {ours}\n  theirs {theirs}" for where, ours, theirs in differences)
