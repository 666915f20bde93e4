"""Container images from files of this machine, as OCI archives: pure Python, no registry, no build tool.

``cli`` makes the pause image and the demo's image this way, the tests make busybox; both import the archive with
``ctr -n k8s.io images import`` or by the CRI-agnostic verb ``pybernetes image import``. Archives are reproducible: the
same files give the same digests, so importing again changes nothing.
"""

import gzip
import hashlib
import io
import json
import os
import platform
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BUSYBOX = Path("/bin/busybox")
CATATONIT = Path("/usr/bin/catatonit")
PAUSE_REFERENCE = "registry.k8s.io/pause:3.10"

_ARCHITECTURES = {
    "x86_64": "amd64",
    "aarch64": "arm64",
    "armv7l": "arm",
    "riscv64": "riscv64",
    "ppc64le": "ppc64le",
    "s390x": "s390x",
}
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


@dataclass(frozen=True, slots=True)
class File:
    """One entry of an image: a regular file, a symbolic link (``link``) or a directory (``directory``)."""

    path: str
    data: bytes = b""
    mode: int = 0o644
    link: str = ""
    directory: bool = False
    uid: int = 0
    gid: int = 0


@dataclass(frozen=True, slots=True)
class Image:
    """What goes into one image: full reference (``docker.io/library/busybox:1.35``), files, and how it starts."""

    reference: str
    files: Sequence[File]
    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    working_dir: str = ""
    stop_signal: str = ""


def architecture() -> str:
    """This machine's architecture in OCI's words."""
    machine = platform.machine()
    return _ARCHITECTURES.get(machine, machine)


def busybox_image(reference: str, applets: Sequence[str], busybox: Path = BUSYBOX, extra: Sequence[File] = ()) -> Image:
    """The static busybox with a link per applet (``busybox --list``), ``/etc/passwd``, ``/tmp`` and ``extra`` files."""
    _require(busybox, "busybox-static")
    files = [
        *(File(path, directory=True, mode=0o755) for path in ("bin", "etc", "home", "root", "usr", "usr/bin", "var")),
        File("tmp", directory=True, mode=0o1777),
        File("bin/busybox", busybox.read_bytes(), 0o755),
        *(File(f"bin/{name}", link="busybox") for name in sorted(set(applets)) if name != "busybox"),
        File("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n"),
        File("etc/group", b"root:x:0:\nnobody:x:65534:\n"),
        *extra,
    ]
    return Image(reference, files, command=("sh",), env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"})


def pause_image(reference: str = PAUSE_REFERENCE, catatonit: Path = CATATONIT) -> Image:
    """The sandbox image: catatonit in its pause mode holds the namespaces and reaps orphans."""
    _require(catatonit, "catatonit")
    return Image(reference, [File("pause", catatonit.read_bytes(), 0o755)], entrypoint=("/pause", "-P"), user="65535:65535")


def write_archive(images: Sequence[Image], target: Path) -> None:
    """Write an OCI image layout as a tar that ``ctr images import`` reads. Replaces ``target`` atomically."""
    blobs: dict[str, bytes] = {}
    manifests = [_manifest(image, blobs) for image in images]
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": manifests}
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    with tarfile.open(temporary, "w") as archive:
        _add(archive, File("oci-layout", b'{"imageLayoutVersion":"1.0.0"}'))
        _add(archive, File("index.json", _json(index)))
        for digest, data in blobs.items():
            _add(archive, File(f"blobs/sha256/{digest}", data))
    temporary.replace(target)


def _manifest(image: Image, blobs: dict[str, bytes]) -> dict[str, Any]:
    plain = _layer(image.files)
    layer = _blob(blobs, gzip.compress(plain, compresslevel=1, mtime=0), _LAYER)
    config = _blob(blobs, _json(_config(image, hashlib.sha256(plain).hexdigest())), _CONFIG)
    manifest = {"schemaVersion": 2, "mediaType": _MANIFEST, "config": config, "layers": [layer]}
    described = _blob(blobs, _json(manifest), _MANIFEST)
    tag = image.reference.rpartition(":")[2]
    annotations = {"io.containerd.image.name": image.reference, "org.opencontainers.image.ref.name": tag}
    return {**described, "platform": {"os": "linux", "architecture": architecture()}, "annotations": annotations}


def _config(image: Image, diff_id: str) -> dict[str, Any]:
    process: dict[str, Any] = {
        "Env": [f"{name}={value}" for name, value in image.env.items()],
        "Entrypoint": list(image.entrypoint),
        "Cmd": list(image.command),
        "User": image.user,
        "WorkingDir": image.working_dir,
        "StopSignal": image.stop_signal,
    }
    return {
        "created": "1970-01-01T00:00:00Z",
        "architecture": architecture(),
        "os": "linux",
        "config": {key: value for key, value in process.items() if value},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{diff_id}"]},
        "history": [{"created": "1970-01-01T00:00:00Z"}],
    }


def _layer(files: Sequence[File]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        for file in files:
            _add(layer, file)
    return buffer.getvalue()


def _add(archive: tarfile.TarFile, file: File) -> None:
    entry = tarfile.TarInfo(file.path)
    entry.mode, entry.uid, entry.gid = file.mode, file.uid, file.gid
    if file.directory:
        entry.type = tarfile.DIRTYPE
    elif file.link:
        entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, file.link, 0o777
    else:
        entry.size = len(file.data)
    archive.addfile(entry, io.BytesIO(file.data) if entry.isreg() else None)


def _blob(blobs: dict[str, bytes], data: bytes, media_type: str) -> dict[str, Any]:
    digest = hashlib.sha256(data).hexdigest()
    blobs[digest] = data
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _require(path: Path, package: str) -> None:
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: install the package {package} (apt-get install {package})")
