"""Who owns which CPUs: the CPU manager's memory, and ``cpu_manager_state`` on the disk."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from node.kubelet.cm import checkpoint, cpuset
from node.kubelet.cm.checkpoint import CheckpointError
from node.kubelet.cm.cpuset import CpuSet

FILE = "cpu_manager_state"
_NONE: CpuSet = frozenset()


@dataclass(slots=True)
class State:
    """``shared``: the CPUs that nobody owns. ``owned``: by pod, by container."""

    policy: str
    shared: CpuSet = _NONE
    owned: dict[str, dict[str, CpuSet]] = field(default_factory=dict)

    def of(self, uid: str, container: str) -> CpuSet | None:
        return self.owned.get(uid, {}).get(container)

    def exclusive(self) -> CpuSet:
        """All that is owned."""
        return _NONE.union(*(cpus for pod in self.owned.values() for cpus in pod.values()))


def load(path: Path, policy: str) -> State:
    """What was kept under that policy; a new state if there is no file. Raises CheckpointError, OSError."""
    return checkpoint.restore(path, "CPU", lambda found: _understood(found, policy), lambda: State(policy))


def document(state: State) -> dict[str, Any]:
    """As upstream writes it."""
    entries = {uid: {name: cpuset.show(cpus) for name, cpus in pod.items()} for uid, pod in state.owned.items()}
    made: dict[str, Any] = {"policyName": state.policy, "defaultCpuSet": cpuset.show(state.shared)}
    if entries:
        made["entries"] = entries
    return {**made, "checksum": checkpoint.checksum(_shown(state.policy, made["defaultCpuSet"], entries))}


def _understood(found: Mapping[str, Any], policy: str) -> State:
    kept, shared = str(found.get("policyName", "")), str(found.get("defaultCpuSet", found.get("defaultCPUSet", "")))
    entries = found.get("entries") or {}
    if not isinstance(entries, dict) or not all(isinstance(pod, dict) for pod in entries.values()):
        raise CheckpointError("entries are not by pod and container")
    checkpoint.verify(found, *(_shown(kept, shared, entries, name) for name in ("", "V2")))
    if kept != policy:
        raise CheckpointError(f'configured policy "{policy}" differs from state checkpoint policy "{kept}"')
    owned: dict[str, dict[str, CpuSet]] = {}
    for uid, pod in entries.items():
        for name, text in pod.items():
            try:
                owned.setdefault(uid, {})[name] = cpuset.parse(text)
            except (ValueError, AttributeError) as error:
                where = f'for container "{name}" in pod "{uid}"'
                raise CheckpointError(f'could not parse cpuset "{text}" {where}: {error}') from None
    try:
        return State(policy, cpuset.parse(shared), owned)
    except ValueError as error:
        raise CheckpointError(f'could not parse default cpu set "{shared}": {error}') from None


def _shown(policy: str, shared: str, entries: Mapping[str, Mapping[str, str]], version: str = "") -> str:
    by_pod = checkpoint.go_map({uid: checkpoint.go_map(pod) for uid, pod in entries.items()})
    return (
        f"(*state.CPUManagerCheckpoint{version}){{PolicyName:(string){policy} DefaultCPUSet:(string){shared} "
        f"Entries:(map[string]map[string]string){by_pod} Checksum:(checksum.Checksum)0}}"
    )
