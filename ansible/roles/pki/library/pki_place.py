"""Folders and files of one machine's keys, written where they differ, each atomically. Called by the role ``pki``.

``copy`` for many, in one go: a control plane gets thirty of them.
"""

import base64
import os
import tempfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

_FOLDER = {"path": {"type": "path", "required": True}, "group": {"type": "str"}, "mode": {"type": "str"}}
_FILE = {**_FOLDER, "content": {"type": "str", "required": True, "no_log": True}}


def main() -> None:
    module = AnsibleModule(
        {
            "folders": {"type": "list", "elements": "dict", "options": _FOLDER, "required": True},
            "files": {"type": "list", "elements": "dict", "options": _FILE, "required": True},
        },
        supports_check_mode=True,
    )
    try:
        changed = [each["path"] for each in module.params["folders"] if folder(module, each)]
        changed += [each["path"] for each in module.params["files"] if file(module, each)]
    except OSError as error:
        module.fail_json(f"cannot write {error.filename}: {error.strerror}")
    module.exit_json(changed=bool(changed), paths=changed)


def folder(module: AnsibleModule, wanted: dict) -> bool:
    path, new = wanted["path"], not os.path.isdir(wanted["path"])
    if new:
        if module.check_mode:
            return True
        os.makedirs(path, mode=0o700)
    return owned(module, path, wanted, new)


def file(module: AnsibleModule, wanted: dict) -> bool:
    path, content = Path(wanted["path"]), base64.b64decode(wanted["content"])
    new = not path.exists() or path.read_bytes() != content
    if new:
        if module.check_mode:
            return True
        handle, temporary = tempfile.mkstemp(dir=module.tmpdir)
        with os.fdopen(handle, "wb") as target:
            target.write(content)
        owned(module, temporary, wanted, True)  # whoever may read it finds it readable
        module.atomic_move(temporary, str(path))
    return owned(module, str(path), wanted, new)


def owned(module: AnsibleModule, path: str, wanted: dict, changed: bool) -> bool:
    attributes = {"path": path, "owner": "root", "group": wanted["group"], "mode": wanted["mode"]}
    return module.set_fs_attributes_if_different(module.load_file_common_arguments(attributes), changed)


if __name__ == "__main__":
    main()
