"""``ansible-playbook`` of the environment that the tests run in, with the settings of ``ansible/``."""

import subprocess
import sys
import tempfile
from pathlib import Path

PLAYBOOKS = Path(__file__).parents[3] / "ansible"


def ansible_playbook(*arguments: str, **environment: str) -> str:
    program = Path(sys.executable).with_name("ansible-playbook")
    settings = {"ANSIBLE_CONFIG": str(PLAYBOOKS / "ansible.cfg"), "LANG": "C.UTF-8"}
    settings |= {"ANSIBLE_STDOUT_CALLBACK": "minimal", "ANSIBLE_CALLBACK_RESULT_FORMAT": "json", **environment}
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(
            [str(program), *arguments],
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": home, **settings},
        )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
