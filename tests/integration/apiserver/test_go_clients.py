"""What a Go client sends back: protobuf in which every struct and scalar that is no pointer is present, set or not."""

from typing import Any

import pytest

from apimachinery.codecs import protobuf
from tests.support.apiserver import running_apiserver

PROTOBUF = {"Accept": "application/vnd.kubernetes.protobuf"}
CORE = "k8s.io.api.core.v1."

# Structs that Go holds by value, so that they are sent even when nothing is in them; every kind's three parts are such.
ALWAYS = {"metadata", "spec", "status"}
VALUES = {
    (CORE + "Container", "resources"),
    (CORE + "EphemeralContainerCommon", "resources"),
    (CORE + "PersistentVolumeClaimSpec", "resources"),
    (CORE + "ContainerStatus", "state"),
    (CORE + "ContainerStatus", "lastState"),
    (CORE + "PodTemplate", "template"),
    (CORE + "ServiceStatus", "loadBalancer"),
    (CORE + "Event", "source"),
    ("k8s.io.api.apps.v1.ReplicaSetSpec", "template"),
    ("k8s.io.api.apps.v1.DeploymentSpec", "strategy"),
    ("k8s.io.api.apps.v1.StatefulSetSpec", "updateStrategy"),
    ("k8s.io.api.apps.v1.DaemonSetSpec", "updateStrategy"),
    ("k8s.io.api.networking.v1.IngressStatus", "loadBalancer"),
    ("k8s.io.api.networking.v1.IngressServiceBackend", "port"),
    ("k8s.io.api.networking.v1.NetworkPolicySpec", "podSelector"),
    ("k8s.io.api.discovery.v1.Endpoint", "conditions"),
    ("k8s.io.api.events.v1.Event", "regarding"),
    ("k8s.io.api.events.v1.Event", "deprecatedSource"),
}
ZEROS = {"string": "", "bool": False, "int32": 0, "int64": 0, "double": 0}


def as_go_sends(obj: dict[str, Any], message: str) -> dict[str, Any]:
    """``obj`` with what Go's structs add to it."""
    filled = dict(obj)
    for field in protobuf.messages().fields(message).values():
        struct = field.type in protobuf.messages() and field.type not in protobuf.SPECIAL
        if not field.name:
            filled |= as_go_sends(filled, field.type)
        elif field.repeated or field.key_value:
            if struct and field.repeated:
                filled |= {field.name: [as_go_sends(item, field.type) for item in obj[field.name]]} if field.name in obj else {}
        elif struct:
            if field.name in obj or field.name in ALWAYS or (message, field.name) in VALUES:
                filled[field.name] = as_go_sends(obj.get(field.name, {}), field.type)
        elif not field.kept and field.type in ZEROS:
            filled.setdefault(field.name, ZEROS[field.type])
    return filled


def pod_spec(**more: Any) -> dict[str, Any]:
    container = {
        "name": "c",
        "image": "i",
        "env": [{"name": "a", "value": "b"}, {"name": "cpu", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}],
        "ports": [{"containerPort": 80}],
        "readinessProbe": {"httpGet": {"port": 80}},
        "livenessProbe": {"exec": {"command": ["true"]}},
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    }
    info = {"path": "p", "resourceFieldRef": {"resource": "limits.cpu", "containerName": "c"}}
    volumes = [
        {"name": "v", "emptyDir": {}},
        {"name": "w", "projected": {"sources": [{"downwardAPI": {"items": [info]}}, {"secret": {"name": "s"}}]}},
        {"name": "x", "configMap": {"name": "m"}},
    ]
    tolerations = [{"key": "k", "operator": "Exists"}]
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "t"}]}}
    return {"containers": [container], "volumes": volumes, "tolerations": tolerations, "affinity": affinity, **more}


LABELS = {"app": "a"}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": pod_spec()}
SELECTOR = {"matchLabels": LABELS}
ONCE = {"metadata": {"labels": LABELS}, "spec": pod_spec(restartPolicy="Never")}
CLAIM = {
    "metadata": {"name": "d"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
LOCAL = {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}]}}
VOLUME = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "nodeAffinity": LOCAL, "local": {"path": "/p"}}
BACKEND = {"service": {"name": "s", "port": {"number": 80}}}
OBJECTS: list[tuple[str, str, str, dict[str, Any]]] = [
    ("api/v1", "pods", "Pod", {"spec": pod_spec()}),
    ("api/v1", "replicationcontrollers", "ReplicationController", {"spec": {"selector": LABELS, "template": TEMPLATE}}),
    ("api/v1", "services", "Service", {"spec": {"selector": LABELS, "ports": [{"port": 80}]}}),
    ("api/v1", "services", "Service", {"spec": {"type": "NodePort", "ports": [{"port": 81}]}}),
    ("api/v1", "configmaps", "ConfigMap", {"data": {"a": ""}}),
    ("api/v1", "secrets", "Secret", {"stringData": {"a": "b"}}),
    ("api/v1", "endpoints", "Endpoints", {"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]}),
    ("api/v1", "serviceaccounts", "ServiceAccount", {}),
    ("api/v1", "limitranges", "LimitRange", {"spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]}}),
    ("api/v1", "podtemplates", "PodTemplate", {"template": TEMPLATE}),
    ("api/v1", "persistentvolumeclaims", "PersistentVolumeClaim", {"spec": CLAIM["spec"]}),
    ("api/v1", "persistentvolumes", "PersistentVolume", {"spec": VOLUME}),
    ("apis/apps/v1", "deployments", "Deployment", {"spec": {"selector": SELECTOR, "template": TEMPLATE}}),
    ("apis/apps/v1", "replicasets", "ReplicaSet", {"spec": {"selector": SELECTOR, "template": TEMPLATE}}),
    ("apis/apps/v1", "daemonsets", "DaemonSet", {"spec": {"selector": SELECTOR, "template": TEMPLATE}}),
    (
        "apis/apps/v1",
        "statefulsets",
        "StatefulSet",
        {"spec": {"serviceName": "s", "selector": SELECTOR, "template": TEMPLATE, "volumeClaimTemplates": [CLAIM]}},
    ),
    ("apis/apps/v1", "controllerrevisions", "ControllerRevision", {"revision": 1, "data": {"a": 1}}),
    ("apis/batch/v1", "jobs", "Job", {"spec": {"template": ONCE}}),
    ("apis/batch/v1", "cronjobs", "CronJob", {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": ONCE}}}}),
    ("apis/networking.k8s.io/v1", "ingresses", "Ingress", {"spec": {"defaultBackend": BACKEND}}),
    ("apis/networking.k8s.io/v1", "networkpolicies", "NetworkPolicy", {"spec": {"podSelector": {}, "ingress": [{}]}}),
    ("apis/policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", {"spec": {"selector": SELECTOR, "minAvailable": 1}}),
    (
        "apis/discovery.k8s.io/v1",
        "endpointslices",
        "EndpointSlice",
        {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}]},
    ),
    ("apis/coordination.k8s.io/v1", "leases", "Lease", {"spec": {"holderIdentity": "h", "leaseTransitions": 0}}),
    (
        "apis/rbac.authorization.k8s.io/v1",
        "roles",
        "Role",
        {"rules": [{"apiGroups": [""], "resources": ["x"], "verbs": ["get"]}]},
    ),
    (
        "apis/rbac.authorization.k8s.io/v1",
        "rolebindings",
        "RoleBinding",
        {
            "subjects": [{"kind": "ServiceAccount", "name": "a", "namespace": "b"}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        },
    ),
    (
        "apis/autoscaling/v2",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        {"spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "maxReplicas": 2}},
    ),
]


@pytest.mark.parametrize(("root", "plural", "kind", "body"), OBJECTS, ids=[f"{row[2]}-{at}" for at, row in enumerate(OBJECTS)])
async def test_writing_back_what_was_read_changes_nothing(root: str, plural: str, kind: str, body: dict[str, Any]) -> None:
    async with running_apiserver() as server:
        collection = f"/{root}/{plural}" if plural == "persistentvolumes" else f"/{root}/namespaces/default/{plural}"
        account = {"metadata": {"name": "default"}}
        await server.request("POST", "/api/v1/namespaces/default/serviceaccounts", account)
        version = root.removeprefix("apis/").removeprefix("api/")
        created = await server.request(
            "POST", collection, {"apiVersion": version, "kind": kind, **body, "metadata": {"name": "x", "labels": {}}}
        )
        assert created.status == 201, created.body
        read = protobuf.decode((await server.request("GET", f"{collection}/x", headers=PROTOBUF)).body)
        message = protobuf.message_of(protobuf.GroupVersionKind(*group_and_version(version), kind))
        assert message is not None
        filled = as_go_sends(read, message)
        packed = protobuf.envelope(version, kind, protobuf.encode_message(filled, message))
        written = await server.request("PUT", f"{collection}/x", packed, content_type=PROTOBUF["Accept"])
        assert written.status == 200, written.body
        # Not even a new version: upstream does not write an object that did not change.
        assert written.json == created.json


def group_and_version(version: str) -> tuple[str, str]:
    group, _, name = version.rpartition("/")
    return group, name
