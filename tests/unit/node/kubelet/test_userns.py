"""User namespaces: no two pods share an id, and a restarted kubelet knows what was given."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from component.process import FakeRunner
from cri.api import runtime_v1_pb2 as pb
from node.kubelet import userns
from node.kubelet.config import KubeletConfig
from node.kubelet.runtime import dns, sandbox, security
from node.kubelet.runtime.container_config import BindMount, Ingredients, container_config
from node.kubelet.userns import IdRange, UserNamespaceError, UserNamespaces
from tests.support.pod_workers import container, pod

UNIT = userns.UNIT


def _own(uid: str = "u") -> dict[str, Any]:
    made = pod(hostUsers=False)
    return {**made, "metadata": {**made["metadata"], "uid": uid}}


def _users(root: Path, pods: int = 3, **more: Any) -> UserNamespaces:
    def pod_dir(uid: str) -> Path:
        folder = root / uid
        folder.mkdir(exist_ok=True)
        return folder

    return UserNamespaces(IdRange(UNIT, UNIT * pods), UNIT, pod_dir, more.pop("supports", lambda handler: True), **more)


@given(steps=st.lists(st.tuples(st.sampled_from(["of", "release", "restart"]), st.integers(0, 4)), max_size=30))
def test_ids_are_never_shared(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]) -> None:
    root = tmp_path_factory.mktemp("pods")
    users, held = _users(root), dict[str, IdRange]()
    for what, number in steps:
        uid = f"pod-{number}"
        if what == "restart":
            users = _users(root)
            users.load([entry.name for entry in root.iterdir()])
        elif what == "release":
            users.release(uid)
            held.pop(uid, None)
        elif uid in held or len(held) < 3:
            made = users.of(_own(uid), "")
            assert made is not None
            assert held.setdefault(uid, made) == made, "it keeps what it has"
        else:
            with pytest.raises(UserNamespaceError, match="could not find an empty slot"):
                users.of(_own(uid), "")
        firsts = [each.first for each in held.values()]
        assert len(set(firsts)) == len(firsts)
        assert all(first >= UNIT for first in firsts), "the host's own ids are nobody's"


def test_who_stays_in_the_hosts(tmp_path: Path) -> None:
    users = _users(tmp_path)
    assert users.of(pod(), "") is None
    assert users.of(pod(hostUsers=True), "") is None


def test_what_cannot_be_is_said_in_upstreams_words(tmp_path: Path) -> None:
    none = _users(tmp_path, supports=lambda handler: False)
    text = "can't set `spec.hostUsers: false`, runtime does not support user namespaces"
    with pytest.raises(UserNamespaceError) as refused:
        none.of(_own(), "")
    assert str(refused.value) == text
    with pytest.raises(UserNamespaceError, match='RuntimeClass handler "kata" does not support user namespaces'):
        none.of(_own(), "kata")
    off = _users(tmp_path, enabled=False)
    with pytest.raises(UserNamespaceError, match='the feature gate "UserNamespacesSupport" is disabled'):
        off.of(_own(), "")
    assert off.of(pod(), "") is None


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ('{"uidMappings": []}', "invalid user namespace mappings file"),
        ('{"uidMappings": [], "gidMappings": []}', "not enough values"),
        (
            '{"uidMappings": [{"hostId": 65536, "containerId": 0, "length": 65536}], "gidMappings": []}',
            "GID and UID mappings should be identical",
        ),
    ],
)
def test_files_that_are_broken_keep_the_pod_waiting(tmp_path: Path, content: str, why: str) -> None:
    users = _users(tmp_path)
    (tmp_path / "u").mkdir()
    (tmp_path / "u" / "userns").write_text(content)
    users.load(["u"])
    with pytest.raises(UserNamespaceError, match=why):
        users.of(_own(), "")


@pytest.mark.parametrize(
    ("ids", "per_pod", "why"),
    [
        (IdRange(UNIT, UNIT * 110), 1000, "length 1000 is not a multiple of 65536"),
        (IdRange(100, UNIT * 110), UNIT, "assigned ID 100 is not a multiple of 65536"),
        (IdRange(0, UNIT * 110), UNIT, "assigned ID 0 must be greater or equal to 65536"),
        (IdRange(UNIT, UNIT * 110 + 1), UNIT, "IDs length 7208961 is not a multiple of 65536"),
        (IdRange(UNIT, UNIT), UNIT, "not enough to support 110 pods"),
    ],
)
def test_ranges_that_cannot_be_divided(ids: IdRange, per_pod: int, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        userns.whole_range(ids, per_pod, 110)
    good = IdRange(UNIT, UNIT * 110)
    assert userns.whole_range(good, UNIT, 110) == good


def test_what_getsubids_prints() -> None:
    assert userns.parse_subids("0: kubelet 65536 7208960\n") == IdRange(65536, 7208960)
    for text in ("", "0: kubelet 65536", "0: kubelet 1 2\n1: kubelet 3 4", "0: kubelet a b"):
        with pytest.raises(ValueError, match=r"range|format"):
            userns.parse_subids(text)


async def test_the_users_range_is_that_of_subuid(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await userns.host_range(FakeRunner(), UNIT, 110) == IdRange(UNIT, UNIT * 110)
    monkeypatch.setattr(userns, "_known", lambda name: True)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    runner = FakeRunner(lambda argv, stdin: b"0: kubelet 131072 7208960\n")
    assert await userns.host_range(runner, UNIT, 110) == IdRange(131072, 7208960)
    assert [argv for argv, _ in runner.calls] == [("getsubids", "kubelet"), ("getsubids", "-g", "kubelet")]
    differ = FakeRunner(lambda argv, stdin: b"0: kubelet 131072 7208960\n" if "-g" in argv else b"0: kubelet 65536 7208960\n")
    with pytest.raises(ValueError, match="different subuids and subgids"):
        await userns.host_range(differ, UNIT, 110)


def test_the_runtime_is_told_of_the_mapping() -> None:
    ids, one = IdRange(UNIT * 2, UNIT), container()
    wanted = pod(hostUsers=False, containers=[one])
    made = sandbox.sandbox_config(wanted, KubeletConfig(), dns.ResolvConf(), 0, "/x", users=ids)
    options = made.linux.security_context.namespace_options.userns_options
    assert options.mode == pb.POD
    (mapping,) = options.uids
    assert (mapping.host_id, mapping.container_id, mapping.length) == (UNIT * 2, 0, UNIT)
    plain = sandbox.sandbox_config(pod(), KubeletConfig(), dns.ResolvConf(), 0, "/x")
    assert not plain.linux.security_context.namespace_options.HasField("userns_options")
    given = Ingredients(
        pod=wanted,
        container=one,
        restart_count=0,
        image=pb.Image(id="i"),
        environment={},
        mounts=[BindMount(Path("/a"), "/b"), BindMount(Path(), "/c", image="img")],
        seccomp=security.Seccomp(Path("/s")),
        users=ids,
    )
    config = container_config(given)
    assert config.linux.security_context.namespace_options.userns_options == options
    of_volume, of_image = config.mounts
    assert list(of_volume.uidMappings) == list(of_volume.gidMappings) == [mapping]
    assert not of_image.uidMappings
