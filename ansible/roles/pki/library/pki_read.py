"""The contents of files below one folder, in base64: ``slurp`` for many, in one go. Called by the role ``pki``."""

import base64
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule


def main() -> None:
    module = AnsibleModule(
        {"folder": {"type": "path", "required": True}, "names": {"type": "list", "elements": "str", "required": True}},
        supports_check_mode=True,
    )
    folder = Path(module.params["folder"])
    try:
        found = {name: base64.b64encode((folder / name).read_bytes()).decode() for name in module.params["names"]}
    except OSError as error:
        module.fail_json(f"cannot read {error.filename}: {error.strerror}")
    module.exit_json(changed=False, contents=found)


if __name__ == "__main__":
    main()
