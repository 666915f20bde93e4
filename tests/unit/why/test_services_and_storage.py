"""Why Services have no endpoints, claims no volume, and cluster-wide objects do not work."""

import pytest

from apimachinery.meta import Object
from tests.support.explanations import ago, event, node, obj, pod, snapshot, text
from why.catalog import explain, unwell
from why.cause import State

PORT = {"port": 80, "targetPort": "http"}


def service(selector: dict[str, str] | None = None, **spec: object) -> Object:
    return obj("Service", "web", spec={"selector": selector or {"app": "web"}, "ports": [{"port": 80}], **spec})


def slices(*ready: bool, name: str = "web") -> Object:
    endpoints = [{"addresses": [f"10.0.0.{number}"], "conditions": {"ready": each}} for number, each in enumerate(ready)]
    labels = {"kubernetes.io/service-name": name}
    return obj("EndpointSlice", f"{name}-x", labels=labels, endpoints=endpoints, ports=[{"port": 80}])


def claim(spec: Object | None = None, **more: object) -> Object:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}}
    return obj("PersistentVolumeClaim", "data", spec=wanted | (spec or {}), **{"status": {"phase": "Pending"}, **more})


def volume(name: str = "pv1", **spec: object) -> Object:
    size = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "manual"}
    return obj("PersistentVolume", name, spec=size | spec, status={"phase": "Available"})


def condition(kind: str, status: str, reason: str = "", message: str = "") -> Object:
    return {"conditions": [{"type": kind, "status": status, "reason": reason, "message": message}]}


def budget(spec: Object, **status: object) -> Object:
    return obj("PodDisruptionBudget", "web", spec={"selector": {"matchLabels": {"app": "web"}}} | spec, status=status)


MANUAL = obj("StorageClass", "manual", provisioner="kubernetes.io/no-provisioner", volumeBindingMode="Immediate")
USES = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
HOOK = {"name": "check.example.com", "clientConfig": {"service": {"namespace": "shop", "name": "hook"}}, "failurePolicy": "Fail"}
RULE = {"operations": ["CREATE"], "resources": ["pods"]}
GROUP = {"service": {"namespace": "shop", "name": "metrics"}, "group": "metrics.k8s.io"}
REMAINS = "Some resources are remaining: configmaps. has 1 resource instances, widgets.example.com has 1 resource instances"
NO_METRICS = condition("ScalingActive", "False", "FailedGetResourceMetric", "unable to get metrics")
SCALED = {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "metrics": [{"type": "Resource"}], "maxReplicas": 5}

CASES: list[tuple[str, Object, list[Object], list[str]]] = [
    (
        "a selector that nearly matches",
        service({"app": "web", "tier": "front"}),
        [slices(), pod("a", labels={"app": "web", "tier": "back"}), pod("b", labels={"app": "web", "tier": "back"}), pod("c")],
        ["app=web,tier=front matches no pod in shop", "near: app=web,tier=back on 2 pods (a, b)", "'app=web,tier=back'"],
    ),
    (
        "a selector that matches nothing at all",
        service({"x": "y"}),
        [pod("a", labels={"app": "web"})],
        ["matches no pod in shop", "the namespace has 1 pod, none with such labels"],
    ),
    (
        "a selector misspelt",
        service({"app": "webb"}),
        [pod("a", labels={"app": "web"}), pod("b", labels={"app": "cache"})],
        ["near: app=web on 1 pod (a)", "kubectl set selector service web -n shop 'app=web'"],
    ),
    (
        "a selector of pods that are not there",
        service({"app": "api"}),
        [pod("a", labels={"app": "cold"})],
        ["the namespace has 1 pod, labels there: app=cold", "start its pods, or correct spec.selector"],
    ),
    (
        "pods that are not ready",
        service(),
        [node(), slices(False), pod("a", labels={"app": "web"}, state={"waiting": {"reason": "ErrImagePull"}})],
        ["none of the 1 pod that it selects is ready", "pod/a", "image web:1 cannot be pulled"],
    ),
    (
        "a port by a name that no pod has",
        service(ports=[PORT]),
        [pod("a", labels={"app": "web"}, ready=True, container={"ports": [{"name": "web", "containerPort": 80}]})],
        ["targetPort 'http' (TCP) is no port of the pods", "their named ports: web (80/TCP)"],
    ),
    (
        "no selector",
        obj("Service", "web", spec={"ports": [{"port": 80}]}),
        [],
        ["it has no selector, and nobody has made endpoints"],
    ),
    ("no balancer", service(type="LoadBalancer"), [slices(True)], ["nobody has given it an address", "1 ready endpoint"]),
    (
        "no volume that fits",
        claim({"storageClassName": "manual"}),
        [MANUAL, volume()],
        ["class manual makes no volumes", "wanted: 5Gi ReadWriteOnce", "persistentvolume/pv1: requested PV is too small"],
    ),
    (
        "a volume by name that others have",
        claim({"volumeName": "pv1", "storageClassName": "manual"}),
        [volume(capacity={"storage": "9Gi"}, claimRef={"namespace": "shop", "name": "other", "uid": "u"})],
        ["names persistentvolume/pv1, which belongs to claim shop/other"],
    ),
    (
        "a claim in use",
        claim(finalizers=["kubernetes.io/pvc-protection"], deletionTimestamp=ago(60), status={"phase": "Bound"}),
        [pod("user", spec=USES, ready=True)],
        ["Terminating", "in use by user", "kubectl delete pod user -n shop"],
    ),
    ("a lost claim", claim({"volumeName": "pv1"}, status={"phase": "Lost"}), [], ["its volume pv1 does not exist any more"]),
    (
        "a released volume",
        obj("PersistentVolume", "pv1", spec={"claimRef": {"namespace": "shop", "name": "data"}}, status={"phase": "Released"}),
        [],
        ["its claim shop/data is gone, and its reclaim policy is Retain", "kubectl patch pv pv1"],
    ),
    (
        "a node with full disks",
        obj(
            "Node",
            "n1",
            status={
                "conditions": [
                    {"type": "Ready", "status": "True"},
                    {"type": "DiskPressure", "status": "True", "lastTransitionTime": ago(60)},
                ]
            },
        ),
        [],
        ["DiskPressure for 60s", "free disk space on the node"],
    ),
    (
        "a node without a network",
        obj("Node", "n1", status=condition("Ready", "False", "KubeletNotReady", "cni plugin not initialized")),
        [],
        ["its kubelet says that it is not ready", "install or mend the CNI plugin"],
    ),
    (
        "a cordoned node whose drain is blocked",
        node(spec={"unschedulable": True}),
        [
            pod("a", labels={"app": "web"}, ready=True),
            budget({"minAvailable": 1}, expectedPods=1, currentHealthy=1, desiredHealthy=1),
        ],
        ["it is cordoned", "kubectl uncordon n1", "a drain waits for shop/a: poddisruptionbudget/web"],
    ),
    (
        "a namespace with remains",
        obj(
            "Namespace",
            "old",
            deletionTimestamp=ago(600),
            spec={"finalizers": ["kubernetes"]},
            status={
                "phase": "Terminating",
                **condition(
                    "NamespaceFinalizersRemaining", "True", "SomeFinalizersRemain", "example.com/x in 2 resource instances"
                ),
            },
        ),
        [],
        ["Terminating for 10m", "example.com/x in 2 resource instances"],
    ),
    (
        "a namespace with objects that are held",
        obj(
            "Namespace",
            "old",
            deletionTimestamp=ago(600),
            status={"phase": "Terminating", **condition("NamespaceContentRemaining", "True", "SomeResourcesRemain", REMAINS)},
        ),
        [
            {"kind": "configmaps", "metadata": {"name": "a", "namespace": "old", "finalizers": ["example.com/x"]}},
            {"kind": "widgets.example.com", "metadata": {"name": "w", "namespace": "old"}},
        ],
        [
            "configmaps/a is held",
            "finalizer example.com/x is not removed by its owner",
            "kubectl edit configmaps a -n old",
            "widgets.example.com without finalizers, about to go: w",
        ],
    ),
    (
        "a namespace behind a dead API group",
        obj(
            "Namespace",
            "old",
            deletionTimestamp=ago(600),
            status={
                "phase": "Terminating",
                **condition("NamespaceDeletionDiscoveryFailure", "True", "DiscoveryFailed", "metrics.k8s.io"),
            },
        ),
        [obj("APIService", "v1beta1.metrics.k8s.io", spec=GROUP, status=condition("Available", "False", "ServiceNotFound"))],
        ["apiservice/v1beta1.metrics.k8s.io: unavailable", "service/metrics in shop does not exist"],
    ),
    (
        "a webhook to nowhere",
        obj("ValidatingWebhookConfiguration", "checks", webhooks=[HOOK | {"rules": [RULE]}]),
        [],
        ["these requests are refused (failurePolicy Fail)", "called on CREATE of pods", "service/hook in shop does not exist"],
    ),
    (
        "a webhook without endpoints",
        obj("MutatingWebhookConfiguration", "checks", webhooks=[HOOK | {"failurePolicy": "Ignore"}]),
        [obj("Service", "hook", spec={"selector": {"app": "hook"}, "ports": [{"port": 443}]})],
        ["1 webhook of 1 cannot be called", "go on without it", "service/hook in shop: no ready endpoints", "matches no pod"],
    ),
    (
        "a webhook to a port that is not there",
        obj("MutatingWebhookConfiguration", "checks", webhooks=[HOOK]),
        [obj("Service", "hook", spec={"ports": [{"port": 8443}]})],
        ["service/hook in shop has no port 443", "its ports: 8443"],
    ),
    (
        "names that collide",
        obj("CustomResourceDefinition", "a.b", status=condition("NamesAccepted", "False", "PluralConflict", "taken")),
        [],
        ["not established", "another definition has these names"],
    ),
    (
        "a budget that lets nothing go",
        budget({"maxUnavailable": 0}, expectedPods=2, currentHealthy=2, desiredHealthy=2),
        [],
        ["with maxUnavailable 0 and 2 pods it never lets any pod be evicted"],
    ),
    (
        "a budget used up by a sick pod",
        budget({"minAvailable": 1}, expectedPods=2, currentHealthy=1, desiredHealthy=1),
        [node(), pod("a", labels={"app": "web"}, state={"waiting": {"reason": "ErrImagePull"}})],
        ["1 pod are unhealthy already", "pod/a"],
    ),
    (
        "no metrics server",
        obj("HorizontalPodAutoscaler", "web", spec=SCALED, status=NO_METRICS),
        [],
        ["it gets no metrics", "nobody serves v1beta1.metrics.k8s.io"],
    ),
    (
        "an autoscaler without a target",
        obj(
            "HorizontalPodAutoscaler", "web", spec=SCALED, status=condition("AbleToScale", "False", "FailedGetScale", "not found")
        ),
        [],
        ["its target deployment/web does not exist"],
    ),
    (
        "a full quota",
        obj("ResourceQuota", "team", spec={"hard": {"cpu": "3"}}, status={"hard": {"cpu": "3"}, "used": {"cpu": "3000m"}}),
        [],
        ["cpu: 3000m of 3 is used"],
    ),
]


@pytest.mark.parametrize(("subject", "others", "says"), [pytest.param(*case[1:], id=case[0]) for case in CASES])
def test_the_cause_is_named(subject: Object, others: list[Object], says: list[str]) -> None:
    answer = explain(snapshot(subject, *others), subject)

    shown = text(answer)
    assert answer.state is State.UNWELL, shown
    assert [each for each in says if each not in shown] == [], shown


@pytest.mark.parametrize(
    ("subject", "others"),
    [
        pytest.param(service(), [slices(True, False)], id="service"),
        pytest.param(obj("Service", "web", spec={"type": "ExternalName", "externalName": "a.b"}), [], id="an alias"),
        pytest.param(claim(status={"phase": "Bound"}), [], id="claim"),
        pytest.param(volume(), [], id="volume"),
        pytest.param(node(), [], id="node"),
        pytest.param(obj("Namespace", "shop", status={"phase": "Active"}), [], id="namespace"),
        pytest.param(obj("CustomResourceDefinition", "a.b", status=condition("Established", "True")), [], id="definition"),
        pytest.param(budget({"minAvailable": 1}, disruptionsAllowed=1, expectedPods=2), [], id="budget"),
        pytest.param(
            obj("MutatingWebhookConfiguration", "checks", webhooks=[HOOK]),
            [obj("Service", "hook", spec={"selector": {"a": "b"}, "ports": [{"port": 443}]}), slices(True, name="hook")],
            id="webhook",
        ),
    ],
)
def test_what_works_is_well(subject: Object, others: list[Object]) -> None:
    answer = explain(snapshot(subject, *others), subject)

    assert answer.state is State.WELL, text(answer)


def test_a_claim_that_waits_for_a_pod_is_on_its_way() -> None:
    slow = obj("StorageClass", "slow", provisioner="disk.example", volumeBindingMode="WaitForFirstConsumer")
    subject = claim({"storageClassName": "slow"})

    answer = explain(snapshot(subject, slow), subject)

    assert answer.state is State.WAITING
    assert "no pod uses it" in text(answer)


def test_endpoints_that_may_not_be_read_are_not_called_missing() -> None:
    assert explain(snapshot(service(), unread=("EndpointSlice",)), service()).state is State.UNKNOWN


def test_custom_resources_are_explained_from_their_own_conditions() -> None:
    made: Object = {"kind": "Certificate", "metadata": {"name": "tls", "namespace": "shop", "uid": "u"}}
    sick = made | {"status": condition("Ready", "False", "Pending", "waiting for the issuer")}

    answer = explain(snapshot(sick, event(sick, "Failed", "the issuer is not there")), sick)

    assert answer.state is State.UNWELL
    assert "condition Ready=False (Pending): waiting for the issuer" in text(answer)
    assert "the issuer is not there" in text(answer)


def test_each_object_is_told_of_once() -> None:
    owner = obj("Deployment", "web", spec={"replicas": 1}, status={"observedGeneration": 1})
    middle = obj("ReplicaSet", "web-1", owner=owner, spec={"replicas": 1}, status={"observedGeneration": 1})
    stuck = pod("web-1-a", owner=middle, state={"waiting": {"reason": "ErrImagePull"}})
    alone = pod("alone", state={"waiting": {"reason": "ErrImagePull"}})

    waits = obj("PersistentVolumeClaim", "data", spec={"storageClassName": "gone"}, status={"phase": "Pending"})
    wants = pod("db", node="", spec={"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]})

    found = unwell(snapshot(node(), owner, middle, stuck, alone, waits, wants, service()), {"shop"})

    assert [each.subject for each in found] == ["deployment/web", "pod/alone", "pod/db", "service/web"]


def test_the_failed_tries_of_what_is_well_are_past() -> None:
    done = obj("Job", "load", spec={"completions": 1}, status={"succeeded": 1, **condition("Complete", "True")})
    tried = pod("load-a", owner=done, status={"phase": "Failed"})
    alone = pod("alone", status={"phase": "Failed"})

    assert [each.subject for each in unwell(snapshot(node(), done, tried, alone))] == ["pod/alone"]
