"""``cpu_manager_state``: files that upstream's kubelets wrote are read, and what we write is byte for byte theirs."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.kubelet.cm import checkpoint, cpuset
from node.kubelet.cm.checkpoint import CheckpointError
from node.kubelet.cm.cpu_manager.state import FILE, State, document, load

UPSTREAM = [
    '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}',
    '{"policyName":"static","defaultCpuSet":"0-63","checksum":1058907510}',
    '{"policyName":"static","defaultCpuSet":"2-15,17-31,34-47,49-63","checksum":4141502832}',
    '{"policyName":"static","defaultCpuSet":"0,4-27","entries":{"39b37746-7f5e-4064-b8e1-eebd2bfaa003":{"app":"1-3"}},'
    '"checksum":3300516549}',
    '{"policyName":"static","defaultCpuSet":"0,4-8,12-15","entries":{"088fe178-cec9-4eb9-ba3c-cf45cba46371":'
    '{"qos-demo-ctr":"1,9"},"681eca58-a216-4ec4-a57b-941cad3c4e0f":{"qos-demo-ctr":"2-3,10-11"}},"checksum":2993692383}',
]


@pytest.mark.parametrize("text", UPSTREAM)
def test_upstreams_files_are_read_and_written(text: str, tmp_path: Path) -> None:
    path = tmp_path / FILE
    path.write_text(text)

    state = load(path, json.loads(text)["policyName"])

    checkpoint.write(path, document(state))
    assert path.read_text() == text
    assert [each.name for each in tmp_path.iterdir()] == [FILE], "no temporary file stays"


names = st.text("abcxyz0189-", min_size=1, max_size=8)
sets = st.frozensets(st.integers(0, 255), max_size=12)


@settings(max_examples=20)
@given(sets, st.dictionaries(names, st.dictionaries(names, sets, min_size=1, max_size=3), max_size=3))
def test_what_is_kept_comes_back(shared: frozenset[int], owned: dict[str, dict[str, frozenset[int]]]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / FILE
        checkpoint.write(path, document(State("static", shared, owned)))
        assert load(path, "static") == State("static", shared, owned)


def test_no_file_is_a_fresh_start(tmp_path: Path) -> None:
    assert load(tmp_path / FILE, "static") == State("static")


def test_a_file_of_a_very_old_kubelet_has_no_checksum(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"policyName":"static","defaultCpuSet":"0-3"}')

    assert load(tmp_path / FILE, "static").shared == cpuset.parse("0-3")


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        pytest.param(UPSTREAM[0], 'configured policy "static" differs from state checkpoint policy "none"', id="policy"),
        pytest.param(UPSTREAM[1].replace("63", "62"), "checkpoint is corrupted", id="checksum"),
        pytest.param("{", "not JSON", id="half a file"),
        pytest.param("[]", "not a JSON object", id="a list"),
        pytest.param(
            '{"policyName":"static","defaultCpuSet":"x"}', 'could not parse default cpu set "x"', id="a set that is none"
        ),
        pytest.param(
            '{"policyName":"static","defaultCpuSet":"0","entries":{"u":{"c":"x"}}}',
            'could not parse cpuset "x" for container "c" in pod "u"',
            id="an entry that is none",
        ),
        pytest.param('{"policyName":"static","entries":[1]}', "entries are not by pod and container", id="other entries"),
    ],
)
def test_a_file_that_cannot_be_used_says_what_to_do(text: str, wrong: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(text)

    with pytest.raises(CheckpointError) as raised:
        load(tmp_path / FILE, "static")
    assert str(raised.value).startswith(f"could not restore state from checkpoint: {wrong}")
    mend = f'please drain this node and delete the CPU manager checkpoint file "{tmp_path / FILE}" before restarting Kubelet'
    assert str(raised.value).endswith(mend)
