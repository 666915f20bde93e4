"""What must be known of a mounted CSI volume to unmount it, though kubelet and API have forgotten it: files beside the mounts.

Upstream's paths and its ``vol_data.json``, so that either kubelet can take over from the other.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

NAME = "kubernetes.io/csi"
_FOLDER = NAME.replace("/", "~")
_FILE = "vol_data.json"


@dataclass(frozen=True, slots=True)
class Record:
    """One volume in one pod. ``target`` is where the driver published it; ``attachment`` is empty if it was not attached."""

    folder: Path
    name: str
    handle: str
    driver: str
    attachment: str
    ephemeral: bool
    target: Path
    is_block: bool = False


def folder_of(pod_dir: Path, name: str) -> Path:
    return pod_dir / "volumes" / _FOLDER / name


def device_folder(pod_dir: Path, name: str) -> Path:
    return pod_dir / "volumeDevices" / _FOLDER / name


def staging_of(root: Path, driver: str, handle: str) -> Path:
    """Where a volume is staged for the whole node."""
    return root / "plugins" / NAME / driver / hashlib.sha256(handle.encode()).hexdigest() / "globalmount"


def device_target_of(root: Path, name: str, uid: str) -> Path:
    return root / "plugins" / NAME / "volumeDevices" / "publish" / name / uid


def write(record: Record, node_name: str) -> None:
    """Before the driver is asked for anything: what is not on record would never be undone."""
    record.folder.mkdir(mode=0o750, parents=True, exist_ok=True)
    content = {
        "specVolID": record.name,
        "volumeHandle": record.handle,
        "driverName": record.driver,
        "nodeName": node_name,
        "attachmentID": record.attachment,
        "volumeLifecycleMode": "Ephemeral" if record.ephemeral else "Persistent",
        "targetPath": str(record.target),
        "block": record.is_block,
    }
    _write(record.folder / _FILE, content)


def write_staging(staging: Path, driver: str, handle: str) -> None:
    staging.mkdir(mode=0o750, parents=True, exist_ok=True)
    _write(staging.parent / _FILE, {"driverName": driver, "volumeHandle": handle})


def _write(path: Path, content: Mapping[str, object]) -> None:
    fresh = path.with_suffix(".new")
    with fresh.open("w") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def of_pod(pod_dir: Path) -> list[Record]:
    """All volumes on record in a pod's directory."""
    return [*_read(pod_dir / "volumes" / _FOLDER), *_read(pod_dir / "volumeDevices" / _FOLDER)]


def find(pod_dir: Path, name: str) -> Record | None:
    """One volume of a pod, by the name of its directory."""
    return next((record for record in of_pod(pod_dir) if record.name == name), None)


def of_all_pods(root: Path) -> Iterator[tuple[str, Record]]:
    """(uid, record) for every pod of this node."""
    try:
        uids = os.listdir(root / "pods")
    except FileNotFoundError:
        return
    for uid in uids:
        for record in of_pod(root / "pods" / uid):
            yield uid, record


def staged(root: Path) -> list[tuple[str, str, Path]]:
    """(driver, handle, staging path) of everything that is staged on this node."""
    found = []
    for path in (root / "plugins" / NAME).glob(f"*/*/{_FILE}"):
        content = _load(path)
        if content.get("driverName") and content.get("volumeHandle"):
            found.append((str(content["driverName"]), str(content["volumeHandle"]), path.parent / "globalmount"))
    return found


def forget(record: Record) -> None:
    (record.folder / _FILE).unlink(missing_ok=True)


def forget_staging(staging: Path) -> None:
    """Raises OSError if something is left in it: that is somebody's data, or a mount."""
    if staging.is_dir():
        staging.rmdir()
    (staging.parent / _FILE).unlink(missing_ok=True)
    staging.parent.rmdir()


def _read(folder: Path) -> Iterator[Record]:
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        content = _load(folder / name / _FILE)
        if not content.get("driverName"):
            continue
        target = Path(str(content.get("targetPath") or folder / name / "mount"))
        ephemeral = content.get("volumeLifecycleMode") == "Ephemeral"
        attachment = str(content.get("attachmentID") or "")
        handle, driver = str(content["volumeHandle"]), str(content["driverName"])
        yield Record(folder / name, name, handle, driver, attachment, ephemeral, target, bool(content.get("block")))


def _load(path: Path) -> dict[str, object]:
    """Nothing for a file that is not there or was cut off; a record is complete or was never acted upon."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
