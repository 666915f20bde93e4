"""Security contexts in CRI's terms."""

from pathlib import Path

import pytest

from cri.api import runtime_v1_pb2 as pb
from node.kubelet.runtime import security
from node.kubelet.runtime.container_config import stop_signal
from node.kubelet.runtime.observed import signal_name
from tests.support.pod_workers import container, pod

ROOT = Path("/var/lib/kubelet/seccomp")
NODE = security.Seccomp(ROOT)


def _context(
    pod_context: dict[str, object], own: dict[str, object], image: pb.Image | None = None
) -> pb.LinuxContainerSecurityContext:
    one = container(securityContext=own)
    return security.container_context(pod(containers=[one], securityContext=pod_context), one, image or pb.Image(), NODE)


def test_the_container_wins_over_the_pod() -> None:
    made = _context({"runAsUser": 1, "runAsGroup": 2, "fsGroup": 7, "supplementalGroups": [5]}, {"runAsUser": 3})
    assert (made.run_as_user.value, made.run_as_group.value) == (3, 2)
    assert list(made.supplemental_groups) == [5, 7]


def test_groups_of_the_image_are_refused_on_request() -> None:
    assert _context({"supplementalGroupsPolicy": "Strict"}, {}).supplemental_groups_policy == pb.Strict
    assert _context({}, {}).supplemental_groups_policy == pb.Merge
    assert security.sandbox_context(pod(securityContext={"supplementalGroupsPolicy": "Strict"})).supplemental_groups_policy


def test_the_images_user_is_the_last_resort() -> None:
    assert _context({}, {}, pb.Image(uid=pb.Int64Value(value=9))).run_as_user.value == 9
    assert _context({}, {}, pb.Image(username="app")).run_as_username == "app"


def test_privileged_opens_everything() -> None:
    made = _context({"seccompProfile": {"type": "RuntimeDefault"}}, {"privileged": True})
    assert made.privileged
    assert not made.masked_paths
    assert made.seccomp.profile_type == pb.SecurityProfile.Unconfined


def test_restrictions() -> None:
    own = {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]},
        "seccompProfile": {"type": "Localhost", "localhostProfile": "p/x.json"},
    }
    made = _context({}, own)
    assert made.readonly_rootfs
    assert made.no_new_privs
    assert list(made.capabilities.drop_capabilities) == ["ALL"]
    assert made.seccomp.localhost_ref == str(ROOT / "p/x.json")
    assert "/proc/kcore" in made.masked_paths


def test_a_seccomp_profile_cannot_leave_its_folder() -> None:
    with pytest.raises(security.SecurityError, match="relative path inside"):
        _context({}, {"seccompProfile": {"type": "Localhost", "localhostProfile": "../../etc/x"}})


@pytest.mark.parametrize(
    ("own", "image", "text"),
    [
        pytest.param({"runAsUser": 0}, pb.Image(), "container's runAsUser breaks non-root policy", id="asked for root"),
        pytest.param({}, pb.Image(uid=pb.Int64Value(value=0)), "runAsNonRoot and image will run as root", id="root image"),
        pytest.param({}, pb.Image(), "container has runAsNonRoot and image will run as root", id="image without a user"),
        pytest.param({}, pb.Image(username="app"), "image has non-numeric user (app), cannot verify", id="named user"),
    ],
)  # fmt: skip
def test_run_as_non_root(own: dict[str, object], image: pb.Image, text: str) -> None:
    one = container(securityContext={"runAsNonRoot": True, **own})
    with pytest.raises(security.SecurityError) as raised:
        security.verify_non_root(pod(containers=[one]), one, image)
    assert text in str(raised.value)
    assert '(pod: "web_default(uid-web)", container: main)' in str(raised.value)


def test_shared_namespaces() -> None:
    made = security.namespaces(pod(hostNetwork=True, hostIPC=True, shareProcessNamespace=True))
    assert (made.network, made.ipc, made.pid) == (pb.NODE, pb.NODE, pb.POD)


def test_the_node_may_have_a_profile_for_those_that_ask_for_none() -> None:
    node = security.Seccomp(ROOT, by_default=True)

    def kind(**own: object) -> int:
        one = container(securityContext=own)
        return security.container_context(pod(containers=[one]), one, pb.Image(), node).seccomp.profile_type

    assert kind() == pb.SecurityProfile.RuntimeDefault
    assert kind(seccompProfile={"type": "Unconfined"}) == pb.SecurityProfile.Unconfined
    assert kind(privileged=True) == pb.SecurityProfile.Unconfined


@pytest.mark.parametrize(
    ("name", "signal"),
    [("SIGTERM", pb.SIGTERM), ("SIGRTMIN+1", pb.SIGRTMINPLUS1), ("SIGRTMAX-14", pb.SIGRTMAXMINUS14), ("", pb.RUNTIME_DEFAULT)],
)
def test_stop_signals(name: str, signal: int) -> None:
    given = container(lifecycle={"stopSignal": name} if name else {})
    assert stop_signal(given) == signal
    assert signal_name(stop_signal(given)) == name
