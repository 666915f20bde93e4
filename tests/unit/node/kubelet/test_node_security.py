"""What a pod may not ask of this node: unsafe sysctls, AppArmor where there is none, another operating system."""

from pathlib import Path
from typing import Any

import pytest

from node.kubelet import admission, apparmor, sysctl
from tests.support.pod_workers import container, pod


def _sets(*names: str, **more: Any) -> dict[str, Any]:
    return pod(securityContext={"sysctls": [{"name": name, "value": "1"} for name in names]}, **more)


@pytest.mark.parametrize("name", sorted(sysctl.SAFE))
def test_safe_sysctls(name: str) -> None:
    assert sysctl.refuse(_sets(name), ()) is None
    assert sysctl.refuse(_sets(name.replace(".", "/")), ()) is None
    assert sysctl.namespace_of(name)


@pytest.mark.parametrize(
    ("allowed", "name", "message"),
    [
        ((), "kernel.msgmax", '"kernel.msgmax" not allowlisted'),
        (("kernel.msg*",), "kernel.msgmax", None),
        (("kernel.msg*",), "kernel/msgmax", None),
        (("kernel.msg*",), "kernel.sem", '"kernel.sem" not allowlisted'),
        (("net.core.somaxconn",), "net.core.somaxconn", None),
        (("net.core.somaxconn",), "net.core.somaxconn2", '"net.core.somaxconn2" not allowlisted'),
        (("net.*",), "net/ipv4/conf/eth0.1/forwarding", None),
        ((), "vm.swappiness", '"vm.swappiness" not allowlisted'),
    ],
)
def test_unsafe_ones_must_be_allowed(allowed: tuple[str, ...], name: str, message: str | None) -> None:
    wanted = None if message is None else ("SysctlForbidden", f"forbidden sysctl: {message}")
    assert sysctl.refuse(_sets(name), allowed) == wanted


def test_those_of_the_hosts_namespaces_stay_as_they_are() -> None:
    refused = sysctl.refuse(_sets("kernel.shm_rmid_forced", hostIPC=True), ())
    assert refused == ("SysctlForbidden", 'forbidden sysctl: "kernel.shm_rmid_forced" not allowed with host IPC enabled')


@pytest.mark.parametrize(("pattern", "why"), [("vm.*", "not known to be namespaced"), ("*", "too short")])
def test_only_namespaced_sysctls_can_be_allowed(pattern: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        sysctl.check([pattern])
    sysctl.check(["net.core.*", "kernel.sem", "fs.mqueue.msg_max"])


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (pod(), False),
        (pod(securityContext={"appArmorProfile": {"type": "Unconfined"}}), False),
        (pod(securityContext={"appArmorProfile": {"type": "RuntimeDefault"}}), True),
        (pod(containers=[container(securityContext={"appArmorProfile": {"type": "Localhost", "localhostProfile": "p"}})]), True),
    ],
)
def test_confinement_needs_app_armor(given: dict[str, Any], wanted: bool) -> None:
    refused = ("AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host")
    assert apparmor.refuse(given, enabled=False) == (refused if wanted else None)
    assert apparmor.refuse(given, enabled=True) is None


def test_whether_this_machine_has_app_armor(tmp_path: Path) -> None:
    parameter = tmp_path / "enabled"
    assert not apparmor.is_enabled(parameter)
    parameter.write_text("Y\n")
    assert apparmor.is_enabled(parameter)


def test_pods_of_another_system() -> None:
    refused = admission.refuse(pod(os={"name": "windows"}), [], {})
    assert refused == ("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
    assert admission.refuse(pod(os={"name": "linux"}), [], {"pods": "10"}) is None
