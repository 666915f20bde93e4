"""What drivers prepared for a container's claims goes to the runtime, by CDI."""

from pathlib import Path

from cri.api import runtime_v1_pb2 as pb
from node.kubelet.runtime.container_config import Ingredients, container_config
from node.kubelet.runtime.security import Seccomp


def test_ids_of_devices_are_told_to_the_runtime() -> None:
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "mine"}]}}
    pod = {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": {"containers": [container]}}
    made = container_config(
        Ingredients(
            pod=pod,
            container=container,
            restart_count=0,
            image=pb.Image(id="sha256:1"),
            environment={},
            mounts=(),
            seccomp=Seccomp(Path("/var/lib/kubelet/seccomp")),
            cdi_devices=("example.com/null=a", "example.com/null=b"),
        )
    )
    assert [each.name for each in made.CDI_devices] == ["example.com/null=a", "example.com/null=b"]
