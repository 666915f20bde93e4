"""What the kubelet makes of a runtime's answers about itself."""

import pytest

from cri import errors
from cri.api import runtime_v1_pb2 as pb
from cri.fake import FakeContainerd
from node.kubelet.runtime import connection


class Runtime(FakeContainerd):
    """Answers what it is given."""

    def __init__(self, conditions: list[pb.RuntimeCondition], driver: "pb.CgroupDriver | None" = None) -> None:
        super().__init__()
        self._told, self._driver = conditions, driver

    async def status(self, *, verbose: bool = False) -> pb.StatusResponse:
        features = pb.RuntimeFeatures(supplemental_groups_policy=True)
        return pb.StatusResponse(status=pb.RuntimeStatus(conditions=self._told), features=features)

    async def runtime_config(self) -> pb.RuntimeConfigResponse:
        if self._driver is None:
            raise errors.UnimplementedError("unknown method RuntimeConfig")
        return pb.RuntimeConfigResponse(linux=pb.LinuxRuntimeConfiguration(cgroup_driver=self._driver))


def _is(kind: str, status: bool, message: str = "") -> pb.RuntimeCondition:
    return pb.RuntimeCondition(type=kind, status=status, reason="" if status else "R", message=message)


GOOD = [_is("RuntimeReady", True), _is("NetworkReady", True)]
NOT_READY = "container runtime not ready: RuntimeReady"
CASES = [
    pytest.param(GOOD, [], id="ready"),
    pytest.param([*GOOD, _is("ContainerdHasNoDeprecationWarnings", False, "bin_dir")], [], id="a condition of its own"),
    pytest.param([GOOD[0], _is("NetworkReady", False, "no network")],
                 ["container runtime network not ready: NetworkReady=false reason:R message:no network"], id="no network"),
    pytest.param([_is("RuntimeReady", False, "m"), GOOD[1]], [f"{NOT_READY}=false reason:R message:m"], id="not ready"),
    pytest.param([GOOD[1]], [f"{NOT_READY}: the runtime does not tell"], id="silent"),
]  # fmt: skip


@pytest.mark.parametrize(("conditions", "problems"), CASES)
async def test_what_keeps_a_node_from_being_ready(conditions: list[pb.RuntimeCondition], problems: list[str]) -> None:
    runtime = Runtime(conditions)
    facts = await connection.look(runtime, runtime, "containerd://2.1", "")
    assert list(facts.problems) == problems
    assert facts.features == {"supplementalGroupsPolicy": True}


@pytest.mark.parametrize(
    ("told", "used"),
    [(None, "cgroupfs"), (pb.CGROUPFS, "cgroupfs"), (pb.SYSTEMD, "systemd")],
    ids=["silent", "cgroupfs", "systemd"],
)
async def test_the_runtimes_cgroup_driver_wins(told: "pb.CgroupDriver | None", used: str) -> None:
    assert await connection.cgroup_driver(Runtime(GOOD, told), "cgroupfs") == used
