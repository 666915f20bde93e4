"""Makes the CRI stubs in ``cri/api`` from ``cri/api/runtime_v1.proto``. Run by the build hook, or alone.

The proto is compiled under its path from the repository root, ``cri/api/runtime_v1.proto``: protobuf keeps one pool of
file names per process, and a plain ``api.proto`` would collide with any other package that does the same.
"""

from pathlib import Path

PROTO = "cri/api/runtime_v1.proto"


def generate(root: Path) -> list[Path]:
    """Write ``runtime_v1_pb2.py``, ``.pyi`` and ``runtime_v1_pb2_grpc.py`` below ``root``; returns what was written."""
    from grpc_tools import protoc

    arguments = ["protoc", f"--proto_path={root}", f"--python_out={root}", f"--pyi_out={root}", f"--grpc_python_out={root}"]
    if protoc.main([*arguments, str(root / PROTO)]) != 0:
        raise RuntimeError(f"protoc could not compile {PROTO}; its message is above")
    folder = root / "cri" / "api"
    return [folder / name for name in ("runtime_v1_pb2.py", "runtime_v1_pb2.pyi", "runtime_v1_pb2_grpc.py")]


if __name__ == "__main__":
    for path in generate(Path(__file__).resolve().parent.parent):
        print(path)
