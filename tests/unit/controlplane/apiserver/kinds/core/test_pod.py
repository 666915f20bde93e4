# ruff: noqa: E501 - messages are searched for, so they stay on one line
from typing import Any

import pytest

from apimachinery.errors import StatusError
from apimachinery.meta import clone
from component.features import DEFAULTS
from controlplane.apiserver.kinds.core.pod.subresources import bind, subresources
from controlplane.apiserver.registry.strategy import Strategy
from tests.support.kinds import NOW, context, created, strategy, update_problems

Object = dict[str, Any]


@pytest.fixture
def kind() -> Strategy:
    return strategy("pods")


def pod(**spec: Any) -> Object:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i:1"}], **spec}}


def test_defaults(kind: Strategy) -> None:
    obj = created(kind, pod())
    assert obj["spec"] == {
        "containers": [
            {
                "name": "c",
                "image": "i:1",
                "imagePullPolicy": "IfNotPresent",
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "resources": {},
            }
        ],
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
    }
    assert obj["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1", "IfNotPresent"),
        ("host:5000/nginx", "Always"),
        (f"nginx@sha256:{'a' * 64}", "IfNotPresent"),
        (f"nginx:latest@sha256:{'a' * 64}", "Always"),
        ("Not a name", "IfNotPresent"),
    ],
)
def test_pull_policy_follows_the_tag(kind: Strategy, image: str, policy: str) -> None:
    obj = created(kind, pod(containers=[{"name": "c", "image": image}]))
    assert obj["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_requests_default_to_limits_and_amounts_become_canonical(kind: Strategy) -> None:
    obj = pod(containers=[{"name": "c", "image": "i:1", "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}}}])
    resources = created(kind, obj)["spec"]["containers"][0]["resources"]
    assert resources == {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}
    assert obj["status"]["qosClass"] == "Guaranteed"


def test_host_network_makes_container_ports_host_ports(kind: Strategy) -> None:
    obj = pod(hostNetwork=True, containers=[{"name": "c", "image": "i:1", "ports": [{"containerPort": 80}]}])
    assert created(kind, obj)["spec"]["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP", "hostPort": 80}]


def test_probe_and_volume_defaults(kind: Strategy) -> None:
    container = {"name": "c", "image": "i:1", "livenessProbe": {"httpGet": {"port": 80}}}
    sources = [{"serviceAccountToken": {"path": "t"}}]
    volumes = [
        {"name": "a"},
        {"name": "b", "secret": {"secretName": "s"}},
        {"name": "c", "projected": {"sources": sources}},
        {"name": "d", "hostPath": {"path": "/"}},
    ]
    spec = created(kind, pod(containers=[container], volumes=volumes, serviceAccountName="robot"))["spec"]
    assert spec["containers"][0]["livenessProbe"] == {
        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    assert spec["volumes"] == [
        {"name": "a", "emptyDir": {}},
        {"name": "b", "secret": {"secretName": "s", "defaultMode": 420}},
        {
            "name": "c",
            "projected": {"defaultMode": 420, "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}]},
        },
        {"name": "d", "hostPath": {"path": "/", "type": ""}},
    ]


def test_service_account_is_shown_under_its_old_name_too(kind: Strategy) -> None:
    spec = created(kind, pod(serviceAccount="robot"))["spec"]
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("robot", "robot")


def test_a_gated_pod_says_so(kind: Strategy) -> None:
    obj = created(kind, pod(schedulingGates=[{"name": "example.com/a"}]))
    assert obj["status"]["conditions"][0]["reason"] == "SchedulingGated"
    obj["metadata"]["creationTimestamp"] = "2026-11-30T12:00:00Z"
    assert kind.row(obj, NOW)[2] == "SchedulingGated"


# --------------------------------------------------------------------------- updates


def changed(kind: Strategy, change: Any, **spec: Any) -> list[str]:
    old = created(kind, pod(**spec))
    new = clone(old)
    change(new["spec"])
    return update_problems(kind, new, old)


def test_an_image_may_change(kind: Strategy) -> None:
    assert changed(kind, lambda spec: spec["containers"][0].update(image="i:2")) == []


def test_tolerations_may_be_added(kind: Strategy) -> None:
    added = {"key": "a", "operator": "Exists", "effect": "NoSchedule"}
    assert changed(kind, lambda spec: spec.update(tolerations=[added])) == []


@pytest.mark.parametrize(
    ("spec", "change", "message"),
    [
        pytest.param(
            {},
            lambda spec: spec["containers"][0].update(command=["a"]),
            "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
            id="command",
        ),
        pytest.param(
            {},
            lambda spec: spec["containers"].append({"name": "d", "image": "i:1"}),
            "spec.containers: Forbidden: pod updates may not add or remove containers",
            id="one more container",
        ),
        pytest.param(
            {"activeDeadlineSeconds": 5},
            lambda spec: spec.update(activeDeadlineSeconds=6),
            "spec.activeDeadlineSeconds: Invalid value: 6: must be less than or equal to previous value",
            id="longer deadline",
        ),
        pytest.param(
            {"tolerations": [{"key": "a", "operator": "Exists"}]},
            lambda spec: spec.update(tolerations=[]),
            "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds",
            id="toleration taken away",
        ),
        pytest.param(
            {"schedulingGates": [{"name": "a"}]},
            lambda spec: spec.update(schedulingGates=[{"name": "b"}]),
            "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'b'",
            id="new gate",
        ),
    ],
)
def test_other_changes_are_refused(kind: Strategy, spec: Object, change: Any, message: str) -> None:
    found = changed(kind, change, **spec)
    assert any(text.startswith(message) for text in found), found


def test_the_refusal_shows_what_differs(kind: Strategy) -> None:
    (text,) = changed(kind, lambda spec: spec["containers"][0].update(command=["a"]))
    assert text.endswith('\n  - containers[0].command: null\n  + containers[0].command: ["a"]')


def test_a_gated_pod_may_be_given_a_narrower_node_selector(kind: Strategy) -> None:
    gates = [{"name": "a"}]
    assert changed(kind, lambda spec: spec.update(nodeSelector={"a": "b"}), schedulingGates=gates) == []
    assert changed(kind, lambda spec: spec.update(nodeSelector={"a": "b"})) != []


def test_a_finished_container_may_not_run_again_in_status(kind: Strategy) -> None:
    old = created(kind, pod(restartPolicy="Never"))
    old["status"]["containerStatuses"] = [{"name": "c", "state": {"terminated": {"exitCode": 0}}}]
    new = clone(old)
    new["status"]["containerStatuses"][0]["state"] = {"running": {}}
    found = [str(error) for error in kind.validate_status_update(context(), new, old)]
    assert found == ["status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"]


@pytest.mark.parametrize(("action", "code"), [("Restart", 42), ("RestartAllContainers", 1)])
def test_unless_its_rules_have_it_run_again(kind: Strategy, action: str, code: int) -> None:
    new_pod = pod(restartPolicy="Never")
    rule = {"action": action, "exitCodes": {"operator": "In", "values": [42]}}
    new_pod["spec"]["containers"][0] |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}
    old = created(kind, new_pod)
    old["status"]["containerStatuses"] = [{"name": "c", "state": {"terminated": {"exitCode": code}}}]
    new = clone(old)
    new["status"]["containerStatuses"][0]["state"] = {"running": {}}
    assert kind.validate_status_update(context(), new, old) == []
    old["spec"]["containers"][0]["restartPolicyRules"][0]["action"] = "Restart"
    old["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] = 7
    assert kind.validate_status_update(context(), new, old) != []


def test_a_file_of_variables_is_in_an_empty_directory(kind: Strategy) -> None:
    def refused(reference: dict[str, Any], *volumes: dict[str, Any]) -> list[str]:
        made = pod(volumes=list(volumes))
        made["spec"]["containers"][0]["env"] = [{"name": "A", "valueFrom": {"fileKeyRef": reference}}]
        kind.default(made)
        assert made["spec"]["containers"][0]["env"][0]["valueFrom"]["fileKeyRef"]["optional"] is False
        return [
            str(error).removeprefix("spec.containers[0].env[0].valueFrom.fileKeyRef.") for error in kind.validate(context(), made)
        ]

    scratch, settings = {"name": "v", "emptyDir": {}}, {"name": "v", "configMap": {"name": "c"}}
    assert refused({"volumeName": "v", "path": "a/b", "key": "K"}, scratch) == []
    assert refused({"volumeName": "v", "path": "../b", "key": "K"}, scratch) == [
        "path: Invalid value: \"../b\": must not contain '..'"
    ]
    assert refused({"volumeName": "v", "path": "b", "key": "K"}, settings) == [
        'volumeName: Invalid value: "v": referenced volume must be of type emptyDir'
    ]
    assert refused({"volumeName": "w", "path": "b", "key": "K"}, scratch) == ['volumeName: Not found: "w"']
    assert refused({"volumeName": "v"}, scratch) == ["path: Required value", "key: Required value"]


def test_status_addresses_are_written_in_both_forms(kind: Strategy) -> None:
    old = created(kind, pod())
    new = clone(old)
    new["status"] = {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}], "hostIP": "1.2.3.4"}
    kind.prepare_for_status_update(context(), new, old)
    assert new["status"] == {
        "phase": "Running",
        "podIPs": [{"ip": "10.0.0.1"}],
        "podIP": "10.0.0.1",
        "hostIP": "1.2.3.4",
        "hostIPs": [{"ip": "1.2.3.4"}],
        "qosClass": "BestEffort",
    }


# --------------------------------------------------------------------------- deletion


@pytest.mark.parametrize(
    ("spec", "phase", "asked", "grace", "graceful"),
    [
        pytest.param({"nodeName": "n"}, "Running", None, 30, True, id="default"),
        pytest.param({"nodeName": "n", "terminationGracePeriodSeconds": 5}, "Running", None, 5, True, id="own period"),
        pytest.param({"nodeName": "n"}, "Running", 7, 7, True, id="asked"),
        pytest.param({"nodeName": "n"}, "Running", 0, 0, False, id="force"),
        pytest.param({"nodeName": "n"}, "Running", -1, 1, True, id="negative"),
        pytest.param({}, "Pending", None, 0, False, id="not scheduled"),
        pytest.param({"nodeName": "n"}, "Succeeded", None, 0, False, id="finished"),
    ],
)
def test_grace_period(kind: Strategy, spec: Object, phase: str, asked: int | None, grace: int, graceful: bool) -> None:
    obj = created(kind, pod(**spec))
    obj["status"]["phase"] = phase
    options: Object = {} if asked is None else {"gracePeriodSeconds": asked}
    assert kind.begin_delete(context("delete"), obj, options) is graceful
    assert options["gracePeriodSeconds"] == grace


# --------------------------------------------------------------------------- subresources


def binding(**target: Any) -> Object:
    return {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1", **target}}


def test_binding_assigns_the_node_once(kind: Strategy) -> None:
    obj = bind(context(), created(kind, pod()), binding())
    assert obj["spec"]["nodeName"] == "n1"
    condition = obj["status"]["conditions"][0]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    with pytest.raises(StatusError) as caught:
        bind(context(), obj, binding(name="n2"))
    assert caught.value.code == 409
    assert caught.value.message == ('Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"')


def test_binding_is_no_new_generation(kind: Strategy) -> None:
    old = created(kind, pod())
    bound = bind(context(), clone(old), binding())
    assert not kind.spec_changed(bound, old)
    bound["spec"]["containers"][0]["image"] = "i:2"
    assert kind.spec_changed(bound, old)


def test_binding_refuses_pods_that_go_or_wait(kind: Strategy) -> None:
    going = created(kind, pod())
    going["metadata"]["deletionTimestamp"] = "2026-11-30T12:00:00Z"
    with pytest.raises(StatusError, match="pod p is being deleted, cannot be assigned to a host"):
        bind(context(), going, binding())
    with pytest.raises(StatusError, match=r"pod p has non-empty \.spec\.schedulingGates"):
        bind(context(), created(kind, pod(schedulingGates=[{"name": "a"}])), binding())


def test_binding_target_is_checked(kind: Strategy) -> None:
    with pytest.raises(StatusError, match=r"target\.kind: Unsupported value") as caught:
        bind(context(), created(kind, pod()), {"target": {"kind": "Pod"}})
    assert caught.value.code == 422


def test_ephemeral_containers_are_only_added(kind: Strategy) -> None:
    sub = next(one for one in subresources(DEFAULTS) if one.name == "ephemeralcontainers")
    assert sub.validate is not None
    old = created(kind, pod())
    body = {"spec": {"ephemeralContainers": [{"name": "e", "image": "i:1", "targetContainerName": "c"}]}}
    new = sub.change(context(), clone(old), body)
    assert sub.validate(context(), new, old) == []
    assert new["spec"]["ephemeralContainers"][0]["imagePullPolicy"] == "IfNotPresent"
    gone = sub.change(context(), clone(new), {"spec": {}})
    found = [str(error) for error in sub.validate(context(), gone, new)]
    assert found == ['spec.ephemeralContainers: Forbidden: existing ephemeral containers "e" may not be removed\n']


@pytest.mark.parametrize(
    ("container", "message"),
    [
        ({"name": "c"}, 'spec.ephemeralContainers[0].name: Duplicate value: "c"'),
        ({"targetContainerName": "x"}, 'spec.ephemeralContainers[0].targetContainerName: Not found: "x"'),
        (
            {"ports": [{"containerPort": 1}]},
            "spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container",
        ),
    ],
)
def test_ephemeral_container_rules(kind: Strategy, container: Object, message: str) -> None:
    sub = next(one for one in subresources(DEFAULTS) if one.name == "ephemeralcontainers")
    assert sub.validate is not None
    old = created(kind, pod())
    body = {"spec": {"ephemeralContainers": [{"name": "e", "image": "i:1", **container}]}}
    new = sub.change(context(), clone(old), body)
    assert message in [str(error) for error in sub.validate(context(), new, old)]
