from typing import Any

import pytest

from node.kubelet import downward

POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"b": "2", "a": "1"}, "annotations": {"x/y": "z"}},
    "spec": {
        "nodeName": "n",
        "serviceAccountName": "sa",
        "containers": [{"name": "c", "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}, "requests": {"cpu": "250m"}}}],
    },
    "status": {"hostIP": "1.2.3.4", "podIP": "5.6.7.8", "podIPs": [{"ip": "5.6.7.8"}, {"ip": "fd00::1"}]},
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("metadata.name", "p"),
        ("metadata.uid", "u"),
        ("metadata.labels", 'a="1"\nb="2"'),
        ("metadata.labels['a']", "1"),
        ("metadata.annotations['x/y']", "z"),
        ("metadata.labels['none']", ""),
        ("spec.nodeName", "n"),
        ("spec.serviceAccountName", "sa"),
        ("status.hostIP", "1.2.3.4"),
        ("status.podIP", "5.6.7.8"),
        ("status.podIPs", "5.6.7.8,fd00::1"),
    ],
)
def test_fields(path: str, expected: str) -> None:
    assert downward.field_value(POD, path) == expected


def test_unknown_fields_are_errors() -> None:
    with pytest.raises(ValueError, match=r"unsupported fieldPath: spec\.x"):
        downward.field_value(POD, "spec.x")


@pytest.mark.parametrize(
    ("ref", "expected"),
    [
        ({"resource": "limits.cpu"}, "2"),
        ({"resource": "limits.cpu", "divisor": "1m"}, "1500"),
        ({"resource": "requests.cpu", "divisor": "100m"}, "3"),
        ({"resource": "limits.memory", "divisor": "1Mi"}, "1024"),
        ({"resource": "limits.memory", "divisor": "0"}, str(1 << 30)),
        ({"resource": "requests.memory"}, "0"),
        ({"resource": "limits.ephemeral-storage"}, "7"),
    ],
)
def test_resources(ref: dict[str, str], expected: str) -> None:
    assert downward.resource_value(POD, ref, "c", {"ephemeral-storage": "7"}) == expected


@pytest.mark.parametrize("ref", [{"resource": "limits.cpu", "containerName": "x"}, {"resource": "cpu"}])
def test_bad_resources(ref: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"not found|unsupported"):
        downward.resource_value(POD, ref, "c", {})


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("plain", '"plain"'),
        ('a"b\\', '"a\\"b\\\\"'),
        ("tab\tnl\n", '"tab\\tnl\\n"'),
        ("\x01é", '"\\x01é"'),
        ("\u200b", '"\\u200b"'),
    ],
)
def test_quotes_as_go_does(text: str, quoted: str) -> None:
    assert downward.quote(text) == quoted
