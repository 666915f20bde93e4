# ruff: noqa: E501 - messages are searched for, so they stay on one line
"""What a pod spec may not be. Texts are those of upstream's ValidatePodSpec and its helpers."""

from typing import Any

import pytest

from tests.support.kinds import problems, strategy

Object = dict[str, Any]


def pod(container: Object | None = None, **spec: Any) -> Object:
    return {"spec": {"containers": [{"name": "c", "image": "i:1", **(container or {})}], **spec}}


VALID = [
    pytest.param(pod(), id="smallest"),
    pytest.param(pod({"env": [{"name": "a.b-c", "value": "x"}]}), id="relaxed environment name"),
    pytest.param(
        pod({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a.b/c']"}}}]}), id="label subscript"
    ),
    pytest.param(pod({"resources": {"limits": {"example.com/gpu": 1}}}), id="extended resource"),
    pytest.param(pod({"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1000m"}}}), id="equal amounts"),
    pytest.param(pod(tolerations=[{"operator": "Exists"}]), id="tolerate everything"),
    pytest.param(
        pod(
            initContainers=[
                {"name": "s", "image": "i:1", "restartPolicy": "Always", "livenessProbe": {"exec": {"command": ["a"]}}}
            ]
        ),
        id="sidecar",
    ),
    pytest.param(pod({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}, volumes=[{"name": "v"}]), id="default volume"),
    pytest.param(pod({"livenessProbe": {"tcpSocket": {"port": "http"}}}), id="named port"),
]


@pytest.mark.parametrize("obj", VALID)
def test_accepts(obj: Object) -> None:
    assert problems(strategy("pods"), obj) == []


def refused(container: Object | None = None, *, message: str, id: str, **spec: Any) -> Any:  # noqa: A002 - as pytest.param spells it
    return pytest.param(pod(container, **spec), message, id=id)


CONTAINERS = [
    refused({"name": "a.b"}, message='spec.containers[0].name: Invalid value: "a.b": must not contain dots', id="dotted name"),
    refused({"name": ""}, message="spec.containers[0].name: Required value", id="no name"),
    refused({"image": ""}, message="spec.containers[0].image: Required value", id="no image"),
    refused(
        {"image": " i"},
        message='spec.containers[0].image: Invalid value: " i": must not have leading or trailing whitespace',
        id="image with blanks",
    ),
    refused(
        {"imagePullPolicy": "Sometimes"},
        message='spec.containers[0].imagePullPolicy: Unsupported value: "Sometimes": supported values: "Always", "IfNotPresent", "Never"',
        id="pull policy",
    ),
    refused(
        {"terminationMessagePolicy": "x"},
        message='spec.containers[0].terminationMessagePolicy: Unsupported value: "x": supported values: "File", "FallbackToLogsOnError"',
        id="message policy",
    ),
    refused({"ports": [{}]}, message="spec.containers[0].ports[0].containerPort: Required value", id="no port"),
    refused(
        {"ports": [{"containerPort": 1, "hostPort": 65536}]},
        message="spec.containers[0].ports[0].hostPort: Invalid value: 65536: must be between 1 and 65535, inclusive",
        id="host port",
    ),
    refused(
        {"ports": [{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]},
        message='spec.containers[0].ports[1].name: Duplicate value: "a"',
        id="port names",
    ),
    refused(
        {"ports": [{"containerPort": 1, "hostPort": 1}, {"containerPort": 2, "hostPort": 1}]},
        message='spec.containers[0].ports[1].hostPort: Duplicate value: "TCP//1"',
        id="host port twice",
    ),
    refused(
        {"ports": [{"containerPort": 1, "hostPort": 2}]},
        hostNetwork=True,
        message="spec.containers[0].ports[0].hostPort: Invalid value: 2: must match `containerPort` when `hostNetwork` is true",
        id="host network",
    ),
    refused(
        {"ports": [{"containerPort": 1, "protocol": "tcp"}]},
        message='spec.containers[0].ports[0].protocol: Unsupported value: "tcp": supported values: "SCTP", "TCP", "UDP"',
        id="protocol",
    ),
    refused(
        {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}},
        message='spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
        id="request over limit",
    ),
    refused(
        {"resources": {"requests": {"memory": "-1"}}},
        message='spec.containers[0].resources.requests[memory]: Invalid value: "-1": must be greater than or equal to 0',
        id="negative amount",
    ),
    refused(
        {"resources": {"requests": {"gpu": 1}}},
        message='spec.containers[0].resources.requests[gpu]: Invalid value: "gpu": must be a standard resource for containers',
        id="resource name",
    ),
    refused(
        {"resources": {"requests": {"example.com/gpu": 1}}},
        message="spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources",
        id="extended resource without limit",
    ),
    refused(
        {"resources": {"requests": {"example.com/g": 1}, "limits": {"example.com/g": 2}}},
        message='spec.containers[0].resources.requests: Invalid value: "1": must be equal to example.com/g limit of 2',
        id="unequal extended resource",
    ),
    refused(
        {"env": [{"name": "A", "value": "a", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
        message='spec.containers[0].env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty',
        id="two values",
    ),
    refused(
        {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s"}}}]},
        message="spec.containers[0].env[0].valueFrom.secretKeyRef.key: Required value",
        id="secret key",
    ),
    refused(
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations"}}}]},
        message='spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Unsupported value: "metadata.annotations"',
        id="field of files only",
    ),
    refused(
        {"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.gpu"}}}]},
        message='spec.containers[0].env[0].valueFrom.resourceFieldRef.resource: Unsupported value: "limits.gpu"',
        id="resource field",
    ),
    refused(
        {"envFrom": [{}]},
        message='spec.containers[0].envFrom: Invalid value: "": must specify one of: `configMapRef` or `secretRef`',
        id="envFrom",
    ),
    refused(
        {"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
        message='spec.containers[0].volumeMounts[0].name: Not found: "v"',
        id="unknown volume",
    ),
    refused(
        {"volumeMounts": [{"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/v"}]},
        volumes=[{"name": "v"}],
        message='spec.containers[0].volumeMounts[1].mountPath: Invalid value: "/v": must be unique',
        id="mount point twice",
    ),
    refused(
        {"volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "../x"}]},
        volumes=[{"name": "v"}],
        message="spec.containers[0].volumeMounts[0].subPath: Invalid value: \"../x\": must not contain '..'",
        id="climbing sub path",
    ),
    refused(
        {"volumeMounts": [{"name": "v", "mountPath": "/v", "mountPropagation": "Bidirectional"}]},
        volumes=[{"name": "v"}],
        message="spec.containers[0].volumeMounts[0].mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers",
        id="propagation",
    ),
    refused(
        {"livenessProbe": {"httpGet": {"port": 0}}},
        message="spec.containers[0].livenessProbe.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive",
        id="probe port",
    ),
    refused(
        {"livenessProbe": {}},
        message="spec.containers[0].livenessProbe: Required value: must specify a handler type",
        id="no handler",
    ),
    refused(
        {"livenessProbe": {"exec": {"command": ["a"]}, "successThreshold": 2}},
        message="spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1",
        id="success threshold",
    ),
    refused(
        {"readinessProbe": {"exec": {"command": ["a"]}, "periodSeconds": -1}},
        message="spec.containers[0].readinessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0",
        id="negative period",
    ),
    refused(
        {"lifecycle": {"preStop": {"exec": {"command": ["a"]}, "httpGet": {"port": 1}}}},
        message="spec.containers[0].lifecycle.preStop.httpGet: Forbidden: may not specify more than 1 handler type",
        id="two handlers",
    ),
    refused(
        {"securityContext": {"runAsUser": -1}},
        message="spec.containers[0].securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
        id="user",
    ),
    refused(
        {"securityContext": {"seccompProfile": {"type": "Localhost"}}},
        message="spec.containers[0].securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost",
        id="seccomp profile",
    ),
]

PODS = [
    pytest.param({"spec": {}}, "spec.containers: Required value", id="no containers"),
    refused(
        restartPolicy="Foo",
        message='spec.restartPolicy: Unsupported value: "Foo": supported values: "Always", "OnFailure", "Never"',
        id="restart policy",
    ),
    refused(
        dnsPolicy="None",
        message="spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None",
        id="DNS config",
    ),
    refused(
        dnsConfig={"nameservers": ["1.1.1.1"] * 4},
        message='spec.dnsConfig.nameservers: Invalid value: ["1.1.1.1","1.1.1.1","1.1.1.1","1.1.1.1"]: must not have more than 3',
        id="DNS servers",
    ),
    refused(
        activeDeadlineSeconds=0, message="spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and", id="deadline"
    ),
    refused(hostname="a.b", message='spec.hostname: Invalid value: "a.b": must not contain dots', id="host name"),
    refused(
        tolerations=[{"key": "a", "operator": "Exists", "value": "b"}],
        message="spec.tolerations[0].operator: Invalid value:",
        id="toleration value",
    ),
    refused(
        tolerations=[{"key": "a", "tolerationSeconds": 1}],
        message="spec.tolerations[0].effect: Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is set",
        id="toleration seconds",
    ),
    refused(
        nodeSelector={"a": "b c"}, message='spec.nodeSelector: Invalid value: "b c": a valid label must be', id="node selector"
    ),
    refused(
        affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}},
        message="spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value: must have at least one node selector term",
        id="node affinity",
    ),
    refused(
        affinity={"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "podAffinityTerm": {}}]}},
        message="spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: must be in the range 1-100",
        id="weight",
    ),
    refused(
        topologySpreadConstraints=[{"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}],
        message="spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
        id="skew",
    ),
    refused(volumes=[{"name": "v"}, {"name": "v"}], message='spec.volumes[1].name: Duplicate value: "v"', id="volume twice"),
    refused(
        volumes=[{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}],
        message="spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type",
        id="two sources",
    ),
    refused(
        volumes=[{"name": "v", "hostPath": {"path": "/a/../b"}}],
        message="spec.volumes[0].hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
        id="climbing host path",
    ),
    refused(
        volumes=[{"name": "v", "secret": {"secretName": "s", "defaultMode": 0o1000}}],
        message="spec.volumes[0].secret.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive",
        id="file mode",
    ),
    refused(
        volumes=[{"name": "v", "configMap": {"name": "c", "items": [{"key": "k", "path": "/p"}]}}],
        message='spec.volumes[0].configMap.items[0].path: Invalid value: "/p": must be a relative path',
        id="absolute path",
    ),
    refused(
        volumes=[{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 1}}]}}],
        message="spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 1: may not specify a duration less than 10 minutes",
        id="token lifetime",
    ),
    refused(
        initContainers=[{"name": "i", "image": "i:1", "readinessProbe": {"exec": {"command": ["a"]}}}],
        message="spec.initContainers[0].readinessProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
        id="probe of an init container",
    ),
    refused(
        initContainers=[{"name": "c", "image": "i:1"}],
        message='spec.initContainers[0].name: Duplicate value: "c"',
        id="same name",
    ),
    refused(
        securityContext={"sysctls": [{"name": "a", "value": "1"}, {"name": "a", "value": "1"}]},
        message='spec.securityContext.sysctls[1].name: Duplicate value: "a"',
        id="sysctl twice",
    ),
    refused(
        ephemeralContainers=[{"name": "e", "image": "i:1"}],
        message="spec.ephemeralContainers: Forbidden: cannot be set on create",
        id="ephemeral container",
    ),
    refused(serviceAccountName="A", message='spec.serviceAccountName: Invalid value: "A": a lowercase RFC 1123', id="account"),
]


@pytest.mark.parametrize(("obj", "message"), [*CONTAINERS, *PODS])
def test_refuses(obj: Object, message: str) -> None:
    found = problems(strategy("pods"), obj)
    assert any(text.startswith(message) for text in found), found
