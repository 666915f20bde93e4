"""Security contexts: what pod and container say together, in CRI's terms. Pure."""

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apimachinery.objects import pods
from cri.api import runtime_v1_pb2 as pb
from node.kubelet.userns import IdRange

_MASKED = (
    "/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
    "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap",
)  # fmt: skip
_READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")

Pod = Mapping[str, Any]
Container = Mapping[str, Any]


class SecurityError(Exception):
    """The container must not start; the text is the reason of ``CreateContainerConfigError``."""


def effective(pod: Pod, container: Container) -> dict[str, Any]:
    """The container's context, completed by the pod's where it is silent."""
    shared = pods.spec_of(pod).get("securityContext") or {}
    inherited = ("runAsUser", "runAsGroup", "runAsNonRoot", "seccompProfile", "seLinuxOptions", "appArmorProfile")
    own = {key: value for key, value in (container.get("securityContext") or {}).items() if value is not None}
    return {**{key: shared[key] for key in inherited if shared.get(key) is not None}, **own}


def verify_non_root(pod: Pod, container: Container, image: pb.Image) -> None:
    """Raise SecurityError if ``runAsNonRoot`` is not kept by ``runAsUser`` or, without it, the image's user."""
    context = effective(pod, container)
    if not context.get("runAsNonRoot"):
        return
    where = f'(pod: "{pods_name(pod)}", container: {container["name"]})'
    user = context.get("runAsUser")
    if user is not None:
        if user == 0:
            raise SecurityError(f"container's runAsUser breaks non-root policy {where}")
        return
    if image.HasField("uid"):
        if image.uid.value == 0:
            raise SecurityError(f"container has runAsNonRoot and image will run as root {where}")
        return
    name = image.username
    if name and name not in ("root", "0"):
        raise SecurityError(
            f"container has runAsNonRoot and image has non-numeric user ({name}), cannot verify user is non-root {where}"
        )
    raise SecurityError(f"container has runAsNonRoot and image will run as root {where}")


def pods_name(pod: Pod) -> str:
    """``name_namespace(uid)``, upstream's way to show a pod in messages."""
    metadata = pod["metadata"]
    return f"{metadata['name']}_{metadata.get('namespace', '')}({metadata.get('uid', '')})"


def namespaces(pod: Pod, users: IdRange | None = None) -> pb.NamespaceOption:
    """Which of the host's namespaces the pod shares; ``users`` are the ids of its own user namespace, if it has one."""
    spec = pods.spec_of(pod)
    pid = pb.NODE if spec.get("hostPID") else pb.POD if spec.get("shareProcessNamespace") else pb.CONTAINER
    return pb.NamespaceOption(
        network=pb.NODE if spec.get("hostNetwork") else pb.POD,
        pid=pid,
        ipc=pb.NODE if spec.get("hostIPC") else pb.POD,
        userns_options=_users(users) if users is not None else None,
    )


def _users(users: IdRange) -> pb.UserNamespace:
    mapping = [id_mapping(users)]
    return pb.UserNamespace(mode=pb.POD, uids=mapping, gids=mapping)


def id_mapping(users: IdRange) -> pb.IDMapping:
    return pb.IDMapping(host_id=users.first, container_id=0, length=users.length)


def sandbox_context(pod: Pod, users: IdRange | None = None) -> pb.LinuxSandboxSecurityContext:
    """The sandbox is privileged when any container is: runtimes give it the devices then."""
    context = pods.spec_of(pod).get("securityContext") or {}
    privileged = any((each.get("securityContext") or {}).get("privileged") for each in pods.all_containers(pod))
    made = pb.LinuxSandboxSecurityContext(
        namespace_options=namespaces(pod, users),
        privileged=privileged,
        seccomp=pb.SecurityProfile(profile_type=pb.SecurityProfile.RuntimeDefault),
        supplemental_groups=_groups(context),
        supplemental_groups_policy=_groups_policy(context),
    )
    if context.get("runAsUser") is not None:
        made.run_as_user.value = int(context["runAsUser"])
        if context.get("runAsGroup") is not None:  # CRI allows a group only beside a user
            made.run_as_group.value = int(context["runAsGroup"])
    return made


@dataclass(frozen=True, slots=True)
class Seccomp:
    """The node's part: where its profiles are, and whether a container that asks for none gets the runtime's."""

    root: Path
    by_default: bool = False


def container_context(
    pod: Pod, container: Container, image: pb.Image, node: Seccomp, users: IdRange | None = None
) -> pb.LinuxContainerSecurityContext:
    """CRI's security context of one container."""
    context = effective(pod, container)
    pod_context = pods.spec_of(pod).get("securityContext") or {}
    privileged = bool(context.get("privileged"))
    made = pb.LinuxContainerSecurityContext(
        privileged=privileged,
        namespace_options=namespaces(pod, users),
        readonly_rootfs=bool(context.get("readOnlyRootFilesystem")),
        no_new_privs=context.get("allowPrivilegeEscalation") is False,
        supplemental_groups=_groups(pod_context),
        supplemental_groups_policy=_groups_policy(pod_context),
        seccomp=_seccomp(context, privileged, node),
    )
    capabilities = context.get("capabilities") or {}
    made.capabilities.add_capabilities.extend(capabilities.get("add") or ())
    made.capabilities.drop_capabilities.extend(capabilities.get("drop") or ())
    _user(made, context, image)
    if not privileged and context.get("procMount") != "Unmasked":
        made.masked_paths.extend(_MASKED)
        made.readonly_paths.extend(_READ_ONLY)
    if profile := context.get("appArmorProfile"):
        made.apparmor.CopyFrom(_profile(profile, profile.get("localhostProfile", "")))
    if options := context.get("seLinuxOptions"):
        made.selinux_options.CopyFrom(
            pb.SELinuxOption(**{key: options.get(key, "") for key in ("user", "role", "type", "level")})
        )
    return made


def _user(made: pb.LinuxContainerSecurityContext, context: Mapping[str, Any], image: pb.Image) -> None:
    if context.get("runAsUser") is not None:
        made.run_as_user.value = int(context["runAsUser"])
    elif image.HasField("uid"):
        made.run_as_user.value = image.uid.value
    elif image.username:
        made.run_as_username = image.username
    else:
        made.run_as_user.value = 0
    if context.get("runAsGroup") is not None:
        made.run_as_group.value = int(context["runAsGroup"])


def _groups(pod_context: Mapping[str, Any]) -> list[int]:
    groups = [int(group) for group in pod_context.get("supplementalGroups") or ()]
    if pod_context.get("fsGroup") is not None:
        groups.append(int(pod_context["fsGroup"]))
    return list(dict.fromkeys(groups))


def _groups_policy(pod_context: Mapping[str, Any]) -> pb.SupplementalGroupsPolicy:
    """Strict: none of the groups that the image's /etc/group gives its user."""
    return pb.Strict if pod_context.get("supplementalGroupsPolicy") == "Strict" else pb.Merge


def _seccomp(context: Mapping[str, Any], privileged: bool, node: Seccomp) -> pb.SecurityProfile:
    profile = context.get("seccompProfile") or ({"type": "RuntimeDefault"} if node.by_default else None)
    if privileged or not profile:
        return pb.SecurityProfile(profile_type=pb.SecurityProfile.Unconfined)
    local = str(profile.get("localhostProfile") or "")
    if profile.get("type") == "Localhost":
        clean = posixpath.normpath(local)
        if not local or clean.startswith(("/", "..")):
            raise SecurityError(f"localhostProfile must be a relative path inside the seccomp profile root: {local!r}")
        return _profile(profile, str(node.root / clean))
    return _profile(profile, "")


def _profile(profile: Mapping[str, Any], reference: str) -> pb.SecurityProfile:
    kinds = {
        "RuntimeDefault": pb.SecurityProfile.RuntimeDefault,
        "Localhost": pb.SecurityProfile.Localhost,
        "Unconfined": pb.SecurityProfile.Unconfined,
    }
    return pb.SecurityProfile(profile_type=kinds[str(profile["type"])], localhost_ref=reference)
