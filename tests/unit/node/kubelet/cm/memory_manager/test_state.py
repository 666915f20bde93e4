"""``memory_manager_state``: files that upstream's kubelets wrote are read, and what we write is theirs."""

import json
from pathlib import Path

import pytest

from node.kubelet.cm import checkpoint
from node.kubelet.cm.checkpoint import CheckpointError
from node.kubelet.cm.memory_manager.state import FILE, Block, NodeState, State, Table, document, load

EMPTY = '{"policyName":"None","machineState":{},"checksum":4236770233}'
ONE = (
    '{"policyName":"static","machineState":{"0":{"numberOfAssignments":0,"memoryMap":{"memory":{"total":2048,'
    '"systemReserved":512,"allocatable":1536,"reserved":512,"free":1024}},"cells":[]}},"entries":{"pod":{"container1":'
    '[{"numaAffinity":[0],"type":"memory","size":512}]}},"checksum":4215593881}'
)


@pytest.mark.parametrize("text", [EMPTY, ONE])
def test_upstreams_files_are_read_and_written(text: str, tmp_path: Path) -> None:
    path = tmp_path / FILE
    path.write_text(text)

    checkpoint.write(path, document(load(path, json.loads(text)["policyName"])))

    assert path.read_text() == text


def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    nodes = {
        node: NodeState([0, 1], 2, {"memory": Table(8, 1, 7, 3, 4), "hugepages-2Mi": Table(4, 0, 4, 0, 4)}) for node in (0, 1)
    }
    state = State("Static", nodes, {"u": {"a": [Block([0, 1], "memory", 3), Block([0, 1], "hugepages-2Mi", 0)]}})

    checkpoint.write(tmp_path / FILE, document(state))

    assert load(tmp_path / FILE, "Static") == state


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (EMPTY, '[memorymanager] configured policy "Static" differs from state checkpoint policy "None"'),
        (ONE.replace("1024", "1025"), "checkpoint is corrupted"),
        ('{"policyName":"Static","machineState":{"0":{}}}', "KeyError: 'cells'"),
        ('{"policyName":"Static","machineState":[]', "not JSON"),
    ],
)
def test_a_file_that_cannot_be_used_says_what_to_do(text: str, wrong: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(text)

    with pytest.raises(CheckpointError) as raised:
        load(tmp_path / FILE, "Static")
    assert str(raised.value).startswith(f"could not restore state from checkpoint: {wrong}")
    assert f'delete the memory manager checkpoint file "{tmp_path / FILE}"' in str(raised.value)
