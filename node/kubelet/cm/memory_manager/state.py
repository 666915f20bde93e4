"""How much memory of which NUMA node is given to whom: the memory manager's memory, and ``memory_manager_state`` on the disk."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from node.kubelet.cm import checkpoint
from node.kubelet.cm.checkpoint import CheckpointError

FILE = "memory_manager_state"


@dataclass(slots=True)
class Table:
    """One kind of memory of one node, in bytes. ``reserved``: what containers have been given."""

    total: int = 0
    system_reserved: int = 0
    allocatable: int = 0
    reserved: int = 0
    free: int = 0


@dataclass(slots=True)
class NodeState:
    """One NUMA node. ``cells``: the nodes it is grouped with, itself among them; a group serves together or not at all."""

    cells: list[int]
    assignments: int = 0
    memory: dict[str, Table] = field(default_factory=dict)


@dataclass(slots=True)
class Block:
    """Memory of one kind that a container has been given, on those nodes together."""

    nodes: list[int]
    type: str
    size: int


Machine = dict[int, NodeState]


@dataclass(slots=True)
class State:
    policy: str
    machine: Machine = field(default_factory=dict)
    given: dict[str, dict[str, list[Block]]] = field(default_factory=dict)
    """By pod, by container."""

    def of(self, uid: str, container: str) -> list[Block] | None:
        return self.given.get(uid, {}).get(container)


def load(path: Path, policy: str) -> State:
    """What was kept under that policy; a new state if there is no file. Raises CheckpointError, OSError."""
    return checkpoint.restore(path, "memory", lambda found: _understood(found, policy), lambda: State(policy))


def document(state: State) -> dict[str, Any]:
    """As upstream writes it."""
    made: dict[str, Any] = {
        "policyName": state.policy,
        "machineState": {
            str(node): {
                "numberOfAssignments": each.assignments,
                "memoryMap": {name: _table(table) for name, table in sorted(each.memory.items())},
                "cells": list(each.cells),
            }
            for node, each in sorted(state.machine.items())
        },
    }
    if state.given:
        made["entries"] = {
            uid: {
                name: [{"numaAffinity": list(block.nodes), "type": block.type, "size": block.size} for block in blocks]
                for name, blocks in pod.items()
            }
            for uid, pod in state.given.items()
        }
    return {**made, "checksum": checkpoint.checksum(_shown(state))}


def _table(table: Table) -> dict[str, int]:
    return {
        "total": table.total,
        "systemReserved": table.system_reserved,
        "allocatable": table.allocatable,
        "reserved": table.reserved,
        "free": table.free,
    }


def _understood(found: Mapping[str, Any], policy: str) -> State:
    try:
        state = State(str(found["policyName"]), _machine(found.get("machineState") or {}), _given(found.get("entries") or {}))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{type(error).__name__}: {error}") from None
    checkpoint.verify(found, *(_shown(state, version) for version in ("", "V1")))
    if state.policy != policy:
        raise CheckpointError(
            f'[memorymanager] configured policy "{policy}" differs from state checkpoint policy "{state.policy}"'
        )
    return state


def _machine(found: Mapping[str, Any]) -> Machine:
    return {
        int(node): NodeState(
            [int(cell) for cell in each["cells"]],
            int(each["numberOfAssignments"]),
            {
                name: Table(*(int(table[key]) for key in ("total", "systemReserved", "allocatable", "reserved", "free")))
                for name, table in each["memoryMap"].items()
            },
        )
        for node, each in found.items()
    }


def _given(found: Mapping[str, Any]) -> dict[str, dict[str, list[Block]]]:
    return {
        uid: {
            name: [Block([int(node) for node in each["numaAffinity"]], str(each["type"]), int(each["size"])) for each in blocks]
            for name, blocks in pod.items()
        }
        for uid, pod in found.items()
    }


def _shown(state: State, version: str = "") -> str:
    machine = checkpoint.go_map({node: _shown_node(each) for node, each in state.machine.items()})
    given = {
        uid: checkpoint.go_map(
            {name: checkpoint.go_slice([_shown_block(each) for each in blocks]) for name, blocks in pod.items()}
        )
        for uid, pod in state.given.items()
    }
    return (
        f"(*state.MemoryManagerCheckpoint{version}){{PolicyName:(string){state.policy} MachineState:(state.NUMANodeMap){machine} "
        f"Entries:(state.ContainerMemoryAssignments){checkpoint.go_map(given)} Checksum:(checksum.Checksum)0}}"
    )


def _shown_node(node: NodeState) -> str:
    tables = {
        name: f"<*>{{TotalMemSize:(uint64){each.total} SystemReserved:(uint64){each.system_reserved} "
        f"Allocatable:(uint64){each.allocatable} Reserved:(uint64){each.reserved} Free:(uint64){each.free}}}"
        for name, each in node.memory.items()
    }
    return (
        f"<*>{{NumberOfAssignments:(int){node.assignments} "
        f"MemoryMap:(map[v1.ResourceName]*state.MemoryTable){checkpoint.go_map(tables)} "
        f"Cells:([]int){checkpoint.go_slice(node.cells)}}}"
    )


def _shown_block(block: Block) -> str:
    return (
        f"{{NUMAAffinity:([]int){checkpoint.go_slice(block.nodes)} Type:(v1.ResourceName){block.type} Size:(uint64){block.size}}}"
    )
