"""Why a workload does not progress: one case for each cause."""

import pytest

from apimachinery.meta import Object
from tests.support.explanations import ago, event, node, obj, pod, snapshot, text
from why.catalog import explain
from why.cause import State

TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}}
OLD = {"replicas": 2, "updatedReplicas": 1, "availableReplicas": 2, "readyReplicas": 2, "observedGeneration": 1}


def deployment(spec: Object | None = None, status: Object | None = None, **more: object) -> Object:
    return obj(
        "Deployment", "web", spec={"replicas": 2} | (spec or {}), status={"observedGeneration": 1} | (status or {}), **more
    )


def replicaset(owner: Object, name: str = "web-1", **status: object) -> Object:
    annotations = {"deployment.kubernetes.io/revision": name.rpartition("-")[2]}
    held = {"observedGeneration": 1} | status
    return obj("ReplicaSet", name, owner=owner, spec={"replicas": 2}, status=held, annotations=annotations)


def stateful(spec: Object | None = None, **status: object) -> Object:
    return obj("StatefulSet", "db", spec={"replicas": 3} | (spec or {}), status={"observedGeneration": 1} | status)


def daemon(spec: Object | None = None, **status: object) -> Object:
    return obj("DaemonSet", "agent", spec=spec or {}, status={"observedGeneration": 1, "desiredNumberScheduled": 2} | status)


def job(spec: Object | None = None, owner: Object | None = None, **status: object) -> Object:
    return obj("Job", "load", owner=owner, spec={"completions": 1} | (spec or {}), status=status)


def cron(spec: Object | None = None, **status: object) -> Object:
    return obj("CronJob", "nightly", spec={"schedule": "0 3 * * *"} | (spec or {}), status=status)


WEB, QUOTA = deployment(), 'pods "web-1-x" is forbidden: exceeded quota: team, requested: cpu=1, used: cpu=3, limited: cpu=3'
SET = replicaset(WEB)
CRASHING = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}}
FAILED_JOB = {
    "conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "over"}],
    "failed": 3,
}
LATE = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "timed out"}

CASES: list[tuple[str, Object, list[Object], list[str]]] = [
    (
        "a quota",
        WEB,
        [
            SET,
            event(SET, "FailedCreate", f"Error creating: {QUOTA}", count=5),
            obj("ResourceQuota", "team", status={"hard": {"cpu": "3"}, "used": {"cpu": "3"}}),
        ],
        ["replicaset/web-1: 0 of 2 pods ready", "refused by a ResourceQuota", "resourcequota/team", "cpu: 3 of 3 used", "(x5)"],
    ),
    (
        "a dead webhook",
        WEB,
        [SET, event(SET, "FailedCreate", 'Error creating: Internal error: failed calling webhook "a.b.c": no endpoints')],
        ["because an admission webhook does not answer", "failurePolicy"],
    ),
    (
        "Pod Security",
        WEB,
        [SET, event(SET, "FailedCreate", 'Error creating: pods "x" is forbidden: violates PodSecurity "restricted:latest"')],
        ["refused by Pod Security admission", "relabel the namespace shop"],
    ),
    (
        "a condition when events are gone",
        WEB,
        [replicaset(WEB, conditions=[{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": QUOTA}])],
        ["refused by a ResourceQuota", "condition ReplicaFailure=True (FailedCreate)"],
    ),
    (
        "pods that crash alike",
        WEB,
        [node(), SET, *(pod(name, owner=SET, state=CRASHING) for name in ("web-1-a", "web-1-b", "web-1-c"))],
        ["pod/web-1-a: Pending on n1", "2 more alike: web-1-b, web-1-c", "CrashLoopBackOff"],
    ),
    (
        "out of its deadline",
        deployment(status={"conditions": [LATE]}),
        [],
        ["no progress within progressDeadlineSeconds 600", "kubectl rollout undo deployment/web -n shop"],
    ),
    (
        "paused in a rollout",
        deployment({"paused": True}, OLD),
        [],
        ["it is paused: changes of its template are not rolled out", "kubectl rollout resume deployment/web -n shop"],
    ),
    (
        "a controller that does not run",
        deployment(status=OLD | {"updatedReplicas": 2}, generation=4),
        [],
        ["its controller has not seen its latest change (generation 4, seen 1)", "check that the controller manager runs"],
    ),
    (
        "a set without its Service",
        stateful({"serviceName": "db"}, readyReplicas=3, availableReplicas=3, updatedReplicas=3),
        [],
        ["service/db (spec.serviceName) does not exist", "--clusterip=None -n shop"],
    ),
    (
        "a Service that selects others",
        stateful({"serviceName": "db", "template": TEMPLATE}, readyReplicas=3, availableReplicas=3, updatedReplicas=3),
        [obj("Service", "db", spec={"selector": {"app": "db"}})],
        ["service/db (spec.serviceName) does not select the pods"],
    ),
    (
        "one pod holds up the next",
        stateful(readyReplicas=0),
        [node(), pod("db-0", owner=stateful(), state=CRASHING)],
        ["pod/db-0", "pods are made one by one (OrderedReady): 2 wait"],
    ),
    (
        "a daemon's pod on a node",
        daemon(numberReady=1, updatedNumberScheduled=2, numberAvailable=1),
        [node(), pod("agent-a", owner=daemon(), state=CRASHING)],
        ["1 of 2 pods ready", "pod/agent-a"],
    ),
    (
        "a job that gave up",
        job(**FAILED_JOB),
        [
            pod("load-a", owner=job(), status={"phase": "Failed"}, state={"terminated": {"exitCode": 3, "reason": "Error"}}),
        ],
        ["BackoffLimitExceeded: over", "pod/load-a: Failed", "exit code 3 (Error)", "log: no such table"],
    ),
    ("a suspended job", job({"suspend": True}), [], ["spec.suspend is true: no pods are run", "kubectl patch job load -n shop"]),
    ("a suspended cron job", cron({"suspend": True}), [], ["spec.suspend is true: no jobs are made", "last run never"]),
    (
        "too many missed times",
        cron(lastScheduleTime=ago(86400)),
        [event(cron(), "TooManyMissedTimes", "too many missed start times: 101")],
        ["TooManyMissedTimes while making jobs", "startingDeadlineSeconds", "last run 24h ago"],
    ),
    (
        "a run that blocks the next",
        cron({"concurrencyPolicy": "Forbid"}, active=[{"name": "load"}]),
        [job({"suspend": True}, owner=cron())],
        ["concurrencyPolicy is Forbid and load is not finished", "spec.suspend is true"],
    ),
    (
        "its last job failed",
        cron(),
        [job(owner=cron(), **FAILED_JOB)],
        ["job/load: Failed: 0 of 1 pods succeeded, 0 active, 3 failed"],
    ),
]


@pytest.mark.parametrize(("subject", "others", "says"), [pytest.param(*case[1:], id=case[0]) for case in CASES])
def test_the_cause_is_named(subject: Object, others: list[Object], says: list[str]) -> None:
    seen = snapshot(subject, *others, logs={("shop", "load-a", "c"): "no such table\n"})

    answer = explain(seen, subject)

    shown = text(answer)
    assert answer.state is State.UNWELL, shown
    assert [each for each in says if each not in shown] == [], shown


FULL = {"replicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "readyReplicas": 2}
ON_DELETE = {"updateStrategy": {"type": "OnDelete"}}
PARTITION = {"updateStrategy": {"rollingUpdate": {"partition": 2}}}
MIXED = {"readyReplicas": 3, "availableReplicas": 3, "updatedReplicas": 1, "currentRevision": "a", "updateRevision": "b"}


@pytest.mark.parametrize(
    ("subject", "state", "says"),
    [
        pytest.param(deployment(status=FULL), State.WELL, "2 of 2 pods available", id="deployment"),
        pytest.param(deployment({"replicas": 0}), State.WELL, "0 of 0 pods available", id="none wanted"),
        pytest.param(deployment(status=OLD), State.WAITING, "maxSurge 25%, maxUnavailable 25%", id="a rollout"),
        pytest.param(stateful(PARTITION, **MIXED), State.WELL, "partition 2 keeps ordinals below 2", id="partition"),
        pytest.param(stateful(ON_DELETE, **MIXED), State.WELL, "with updateStrategy OnDelete", id="on delete"),
        pytest.param(stateful(**MIXED), State.WAITING, "replaces one pod at a time", id="rolling"),
        pytest.param(
            daemon(numberReady=2, updatedNumberScheduled=1, numberAvailable=2), State.WAITING, "maxUnavailable 1", id="daemons"
        ),
        pytest.param(job(succeeded=1, conditions=[{"type": "Complete", "status": "True"}]), State.WELL, "Complete", id="job"),
        pytest.param(cron(), State.WELL, "schedule '0 3 * * *'", id="cron job"),
    ],
)
def test_what_is_well_or_on_its_way(subject: Object, state: State, says: str) -> None:
    answer = explain(snapshot(subject), subject)

    assert (answer.state, says in text(answer)) == (state, True), text(answer)
