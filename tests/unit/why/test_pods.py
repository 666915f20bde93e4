"""Why a pod does not run: one case for each cause, from the objects that a cluster would show."""

from typing import Any

import pytest

from apimachinery.meta import Object
from tests.support.explanations import NS, ago, event, node, obj, pod, snapshot, text
from why.catalog import explain
from why.cause import State

WAITING_CLASS = obj("StorageClass", "slow", provisioner="disk.example", volumeBindingMode="WaitForFirstConsumer")
DATA = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}


def waiting(reason: str, message: str = "") -> Object:
    return {"waiting": {"reason": reason, "message": message}}


def asks(**requests: str) -> Object:
    return {"resources": {"requests": requests}}


def claim(name: str = "data", class_name: str | None = "slow") -> Object:
    spec: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    if class_name is not None:
        spec["storageClassName"] = class_name
    return obj("PersistentVolumeClaim", name, spec=spec, status={"phase": "Pending"})


ENDED = {"exitCode": 1, "reason": "Error", "startedAt": ago(25), "finishedAt": ago(20)}
OOM = {"exitCode": 137, "reason": "OOMKilled", "startedAt": ago(25), "finishedAt": ago(20)}
HTTP = {"httpGet": {"path": "/healthz", "port": 8080}}
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"a": "b"}}}
NEAR = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"}

REQUEST = {"name": "one", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
DEVICES = obj("ResourceClaim", "gpu", spec={"devices": {"requests": [REQUEST]}}, status={})

# id, the pod, what else there is, what the answer must say
CASES: list[tuple[str, Object, list[Object], list[str]]] = [
    (
        "too much cpu",
        pod(node="", container=asks(cpu="8")),
        [node("n1"), node("n2", cpu="2"), pod("other", ready=True, node="n1", container=asks(cpu="1500m"))],
        [
            "no node accepts it: 0 of 2",
            "2 of 2 nodes: Insufficient cpu [NodeResourcesFit]; the pod wants cpu 8",
            "n1: 2500m free of 4 (1500m requested by 1 pod)",
            "n2: 2 free of 2",
            "the scheduler: 0/2 nodes are available: 2 Insufficient cpu.",
            "lower the pod's requests of cpu",
        ],
    ),
    (
        "a device nobody offers",
        pod(node="", container=asks(**{"example.com/gpu": "1"})),
        [node()],
        ["Insufficient example.com/gpu", "n1: offers no example.com/gpu"],
    ),
    (
        "a taint and a cordon, both told",
        pod(node="", container=asks(cpu="100")),
        [node(spec={"unschedulable": True, "taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}]})],
        ["n1: team=a:NoSchedule", "kubectl taint nodes n1 team=a:NoSchedule-", "kubectl uncordon n1", "Insufficient cpu"],
    ),
    (
        "a taint of a sick node",
        pod(node=""),
        [node(spec={"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}, ready="False")],
        ["node.kubernetes.io/not-ready:NoSchedule", "pybernetes why node/n1"],
    ),
    (
        "a node selector",
        pod(node="", spec={"nodeSelector": {"disk": "ssd"}}),
        [node("n1", labels={"disk": "hdd"}), node("n2")],
        ["the pod wants disk=ssd", "n1: disk is hdd", "n2: no label disk"],
    ),
    (
        "a host port",
        pod(node="", container={"ports": [{"containerPort": 80, "hostPort": 80}]}),
        [node(), pod("holder", ready=True, container={"ports": [{"containerPort": 80, "hostPort": 80}]})],
        ["host port 80/TCP is held by shop/holder"],
    ),
    (
        "topology spread",
        pod(node="", labels={"a": "b"}, spec={"topologySpreadConstraints": [SPREAD]}),
        [
            node("n1", labels={"zone": "east"}),
            node("n2", labels={"zone": "west"}, spec={"unschedulable": True}),
            pod("other", ready=True, labels={"a": "b"}),
        ],
        ["PodTopologySpread", "maxSkew 1 over zone: pods per domain are east 1, west 0"],
    ),
    (
        "affinity to pods that are not there",
        pod(node="", spec={"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [NEAR]}}}),
        [node(labels={"kubernetes.io/hostname": "n1"})],
        ["1 of 1 node didn't match pod affinity rules [InterPodAffinity]", "kubernetes.io/hostname is n1"],
    ),
    (
        "lesser pods in the way",
        pod(node="", container=asks(cpu="3"), spec={"priority": 1000, "preemptionPolicy": "Never"}),
        [node(), pod("lesser", ready=True, container=asks(cpu="3"))],
        ["preemption: not eligible due to preemptionPolicy=Never.", "priority 1000"],
    ),
    (
        "devices that nobody has",
        pod(node="", spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}),
        [node(), obj("DeviceClass", "gpu", spec={}), DEVICES],
        ["cannot allocate all claims [DynamicResources]"],
    ),
    (
        "a device claim that does not exist",
        pod(node="", spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}),
        [node()],
        ["resourceclaim/gpu does not exist"],
    ),
    (
        "a template's device claim that was not made",
        pod(node="", spec={"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]}),
        [node()],
        ["ResourceClaim not created yet", "resource claim controller runs"],
    ),
    ("gates", pod(node="", spec={"schedulingGates": [{"name": "example.com/quota"}]}), [], ["example.com/quota"]),
    ("another scheduler", pod(node="", spec={"schedulerName": "mine"}), [node()], ["it asks for the scheduler mine"]),
    ("no nodes", pod(node=""), [], ["the cluster has no nodes"]),
    (
        "the scheduler does not run",
        pod(node=""),
        [
            node(),
            obj(
                "Lease",
                "kube-scheduler",
                namespace="kube-system",
                spec={"holderIdentity": "cp-1", "renewTime": ago(90), "leaseDurationSeconds": 15},
            ),
        ],
        ["1 node of 1 would take it now (n1)", "cp-1 renewed its lease 90s ago", "the scheduler does not run"],
    ),
    (
        "a claim that does not exist",
        pod(node="", spec=DATA),
        [node()],
        [
            'VolumeBinding refuses it before any node is asked: persistentvolumeclaim "data" not found',
            "create claim data -n shop",
        ],
    ),
    (
        "a claim of a class that does not exist",
        pod(node="", spec=DATA),
        [node(), claim(class_name="fast"), WAITING_CLASS],
        ["pod has unbound immediate PersistentVolumeClaims", "storageclass/fast does not exist", "there are: slow"],
    ),
    (
        "a claim without a class",
        pod(node="", spec=DATA),
        [node(), claim(class_name=None), WAITING_CLASS],
        ["it names no class, and no class is the default"],
    ),
    (
        "a provisioner that fails",
        pod(node="", spec=DATA),
        [
            node(),
            obj("StorageClass", "slow", provisioner="disk.example", volumeBindingMode="Immediate"),
            claim(),
            event(claim(), "ProvisioningFailed", "rpc error: out of space"),
        ],
        ["provisioner disk.example of class slow fails", "rpc error: out of space"],
    ),
    (
        "an image that the registry does not know",
        pod(state=waiting("ImagePullBackOff", 'Back-off pulling image "web:1"')),
        [
            node(),
            event(pod(), "Failed", 'Failed to pull image "web:1": registry/web:1: not found', count=3),
            event(pod(), "BackOff", 'Back-off pulling image "web:1"', count=7),
        ],
        ["image web:1 cannot be pulled", "registry/web:1: not found", "7 back-offs so far", "the registry has no such image"],
    ),
    (
        "a registry that wants credentials",
        pod(
            state=waiting("ErrImagePull", "pull access denied: authorization failed"),
            spec={"imagePullSecrets": [{"name": "key"}]},
        ),
        [node()],
        ["pull access denied", "the Secret key"],
    ),
    ("an image that is never pulled", pod(state=waiting("ErrImageNeverPull")), [node()], ["imagePullPolicy is Never"]),
    ("an image name", pod(state=waiting("InvalidImageName", "bad")), [node()], ["'web:1' cannot be parsed"]),
    (
        "a missing secret in the environment",
        pod(
            state=waiting("CreateContainerConfigError", 'secret "login" not found'),
            container={"env": [{"name": "PW", "valueFrom": {"secretKeyRef": {"name": "login", "key": "pw"}}}]},
        ),
        [node()],
        ['secret "login" not found', "secret/login does not exist", "used by env PW, key pw", "secret generic login -n shop"],
    ),
    (
        "a missing key",
        pod(
            state=waiting("CreateContainerConfigError", "couldn't find key pw in Secret shop/login"),
            container={"env": [{"name": "PW", "valueFrom": {"secretKeyRef": {"name": "login", "key": "pw"}}}]},
        ),
        [node(), obj("Secret", "login")],
        ["couldn't find key pw in Secret shop/login"],
    ),
    (
        "a missing config map of a volume",
        pod(spec={"volumes": [{"name": "conf", "configMap": {"name": "conf"}}]}, state=waiting("ContainerCreating")),
        [node(), event(pod(), "FailedMount", 'MountVolume.SetUp failed for volume "conf" : configmap "conf" not found')],
        ["its volumes are not mounted", "configmap/conf does not exist", "used by volume conf"],
    ),
    (
        "a crash loop with its log",
        pod(
            state=waiting("CrashLoopBackOff", "back-off 40s restarting failed container=c"),
            container_status={"lastState": {"terminated": ENDED}, "restartCount": 3},
        ),
        [node()],
        [
            "it has ended 4 times and is being restarted",
            "ended with exit code 1 (Error) after 5s, 20s ago",
            "back-off of 40s: next start in 20s",
            "log: no DATABASE_URL",
            "kubectl logs web -n shop -c c --previous",
        ],
    ),
    (
        "out of memory",
        pod(
            state=waiting("CrashLoopBackOff", "back-off 10s"),
            container={"resources": {"limits": {"memory": "64Mi"}}},
            container_status={"lastState": {"terminated": OOM}, "restartCount": 1},
        ),
        [node()],
        ["exit code 137 (OOMKilled)", "it used more memory than its limit of 64Mi", "raise resources.limits.memory of c"],
    ),
    (
        "a program that is not in the image",
        pod(
            state=waiting("CrashLoopBackOff", "back-off 10s"),
            container_status={"lastState": {"terminated": {"exitCode": 127}}, "restartCount": 1},
        ),
        [node()],
        ["the command was not found in the image", "correct command and args of c"],
    ),
    (
        "killed by its liveness probe",
        pod(
            state=waiting("CrashLoopBackOff", "back-off 10s"),
            container={"livenessProbe": HTTP},
            container_status={"lastState": {"terminated": {"exitCode": 137, "reason": "Error"}}, "restartCount": 1},
        ),
        [node(), event(pod(), "Unhealthy", "Liveness probe failed: HTTP probe failed with statuscode: 500")],
        ["its liveness probe failed, so the kubelet killed it (GET /healthz on port 8080", "statuscode: 500"],
    ),
    (
        "not ready by its probe",
        pod(state={"running": {"startedAt": ago(60)}}, container={"readinessProbe": HTTP}),
        [node(), event(pod(), "Unhealthy", "Readiness probe failed: connection refused", count=9)],
        ["its readiness probe fails (GET /healthz on port 8080, each 10s", "(x9): Readiness probe failed: connection refused"],
    ),
    (
        "not started by its probe",
        pod(state={"running": {}}, container={"startupProbe": {"exec": {"command": ["test", "-f", "/up"]}}}),
        [node()],
        ["its startup probe fails (exec test -f /up"],
    ),
    (
        "an init container at work",
        pod(
            spec={"initContainers": [{"name": "migrate"}]},
            status={
                "initContainerStatuses": [{"name": "migrate", "state": {"running": {"startedAt": ago(200)}}}],
                "containerStatuses": [{"name": "c", "state": waiting("PodInitializing")}],
            },
        ),
        [node()],
        ["init container migrate: it has not finished in 3m20s", "kubectl logs web -n shop -c migrate"],
    ),
    (
        "a readiness gate",
        pod(
            state={"running": {}},
            container_status={"ready": True},
            spec={"readinessGates": [{"conditionType": "example.com/in"}]},
        ),
        [node()],
        ["readiness gate example.com/in is not True", "the pod has no such condition"],
    ),
    (
        "no network for its sandbox",
        pod(state=waiting("ContainerCreating")),
        [node(), event(pod(), "FailedCreatePodSandBox", "plugin type=bridge failed (add): no IP addresses available")],
        ["its sandbox cannot be made", "no IP addresses available"],
    ),
    (
        "a volume that is elsewhere",
        pod(spec=DATA, state=waiting("ContainerCreating")),
        [
            node(),
            obj("PersistentVolumeClaim", "data", spec={"volumeName": "pv1"}, status={"phase": "Bound"}),
            obj(
                "VolumeAttachment",
                "a",
                spec={"nodeName": "n9", "source": {"persistentVolumeName": "pv1"}},
                status={"attached": True},
            ),
            event(pod(), "FailedAttachVolume", "Multi-Attach error"),
        ],
        ["persistentvolume/pv1 is still attached to node n9"],
    ),
    (
        "its node does not answer",
        pod(ready=False, state={"running": {}}),
        [node(ready="Unknown"), obj("Lease", "n1", namespace="kube-node-lease", spec={"renewTime": ago(400)})],
        ["on node n1, which does not answer", "its lease was renewed 6m40s ago; the limit is 40s"],
    ),
    (
        "failed by eviction",
        pod(status={"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}),
        [node()],
        ["Failed (Evicted): The node was low on resource: memory."],
    ),
    (
        "a finalizer",
        pod(deletionTimestamp=ago(100), deletionGracePeriodSeconds=30, finalizers=["example.com/backup"]),
        [node()],
        ["Terminating for 2m10s", "finalizer example.com/backup is not removed by its owner"],
    ),
    (
        "deleted on a node that is gone",
        pod(deletionTimestamp=ago(100), deletionGracePeriodSeconds=30),
        [],
        ["its node n1 does not exist any more", "--force --grace-period=0"],
    ),
    (
        "deleted on a node that does not answer",
        pod(deletionTimestamp=ago(100), deletionGracePeriodSeconds=30),
        [node(ready="Unknown")],
        ["so nobody confirms its end", "out-of-service=nodeshutdown:NoExecute"],
    ),
    (
        "still running after its grace",
        pod(state={"running": {}}, deletionTimestamp=ago(100), deletionGracePeriodSeconds=30),
        [node()],
        ["its grace period ended 100s ago, and the kubelet has not confirmed", "running: c"],
    ),
]


@pytest.mark.parametrize(("subject", "others", "says"), [pytest.param(*case[1:], id=case[0]) for case in CASES])
def test_the_cause_is_named(subject: Object, others: list[Object], says: list[str]) -> None:
    seen = snapshot(subject, *others, logs={(NS, "web", "c"): "starting\nno DATABASE_URL\n"})

    answer = explain(seen, subject)

    shown = text(answer)
    assert answer.state is State.UNWELL, shown
    assert [each for each in says if each not in shown] == [], shown


WELL: list[Any] = [
    pytest.param(pod(ready=True), id="ready"),
    pytest.param(pod(status={"phase": "Succeeded"}), id="succeeded"),
]


@pytest.mark.parametrize("subject", WELL)
def test_what_runs_is_well(subject: Object) -> None:
    assert explain(snapshot(subject, node()), subject).state is State.WELL


def test_a_ready_pod_tells_of_its_restarts() -> None:
    subject = pod(ready=True, container_status={"restartCount": 7, "lastState": {"terminated": OOM}})

    answer = explain(snapshot(subject, node()), subject)

    assert answer.state is State.WELL
    assert "container c has been restarted 7 times" in text(answer)
    assert "exit code 137 (OOMKilled) after 5s, 20s ago" in text(answer)


def test_within_its_grace_a_pod_is_on_its_way() -> None:
    subject = pod(state={"running": {}}, deletionTimestamp=ago(-20), deletionGracePeriodSeconds=30)

    answer = explain(snapshot(subject, node()), subject)

    assert answer.state is State.WAITING
    assert "its grace period of 30s ends in 20s; running: c" in text(answer)


def test_a_pod_that_preempts_is_on_its_way() -> None:
    subject = pod(node="", container=asks(cpu="3"), spec={"priority": 1000}, status={"nominatedNodeName": "n1"})
    lesser = pod("lesser", ready=True, container=asks(cpu="3"), deletionTimestamp=ago(1))

    answer = explain(snapshot(subject, node(), lesser), subject)

    assert answer.state is State.WAITING
    assert "room is being made for it on node n1" in text(answer)


def test_a_viewer_who_may_not_list_nodes_hears_the_scheduler_s_last_word() -> None:
    subject = pod(
        node="", status={"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}]}
    )

    answer = text(explain(snapshot(subject, unread=("Node",)), subject))

    assert "0/3 nodes are available" in answer
    assert "run this as somebody who may list nodes" in answer


def test_what_may_not_be_read_is_never_called_missing() -> None:
    source = {"valueFrom": {"secretKeyRef": {"name": "login", "key": "pw"}}}
    subject = pod(state=waiting("CreateContainerConfigError", "secret not found"), container={"env": [{"name": "PW", **source}]})

    assert "does not exist" not in text(explain(snapshot(subject, node(), unread=("Secret",)), subject))
