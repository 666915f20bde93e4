"""What the role ``pki`` reads on the first control plane and writes on each machine: what differs, and nothing in check mode."""

import grp
import json
import os
import stat
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from tests.unit.ansible.playbooks import PLAYBOOKS, ansible_playbook

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to others")
GROUP = grp.getgrgid(65534).gr_name


def test_files_are_written_where_they_differ(tmp_path: Path) -> None:
    store, own = tmp_path / "store", tmp_path / "etc" / "apiserver"
    store.mkdir()
    (store / "ca.crt").write_bytes(b"\xff the authority")
    wanted: dict[str, Any] = {
        "folders": [
            {"path": str(own.parent), "group": "root", "mode": "0755"},
            {"path": str(own), "group": GROUP, "mode": "0750"},
        ],
        "files": [
            {"path": str(own / "ca.crt"), "group": GROUP, "mode": "0640", "content": "{{ read.contents['ca.crt'] }}"},
            {"path": str(own / "ca.key"), "group": "root", "mode": "0600", "content": b64encode(b"a secret").decode()},
        ],
    }
    place = {"pki_place": wanted, "register": "placed"}
    show = {"ansible.builtin.debug": {"msg": "placed: {{ placed.paths | to_json }}"}}
    spoil = {"ansible.builtin.copy": {"content": "x", "dest": str(own / "ca.key"), "mode": "0644"}}
    play = {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "vars": {"ansible_python_interpreter": sys.executable},
        "tasks": [
            {"pki_read": {"folder": str(store), "names": ["ca.crt"]}, "register": "read"},
            *({**place, "check_mode": True}, show, place, show, place, show, spoil, place, show),
        ],
    }
    (tmp_path / "play.yml").write_text(json.dumps([play]))

    said = ansible_playbook(
        "--inventory=localhost,", str(tmp_path / "play.yml"), ANSIBLE_LIBRARY=str(PLAYBOOKS / "roles/pki/library")
    )

    everything = [str(own.parent), str(own), str(own / "ca.crt"), str(own / "ca.key")]
    shown = [
        json.loads(line.partition("placed: ")[2].strip().rstrip('"').replace('\\"', '"'))
        for line in said.splitlines()
        if "placed: " in line
    ]
    assert shown == [everything, everything, [], [str(own / "ca.key")]]
    assert ((own / "ca.crt").read_bytes(), (own / "ca.key").read_bytes()) == (b"\xff the authority", b"a secret")
    modes = {path.name: (stat.S_IMODE(path.stat().st_mode), path.group()) for path in (own, *own.iterdir())}
    assert modes == {"apiserver": (0o750, GROUP), "ca.crt": (0o640, GROUP), "ca.key": (0o600, "root")}
