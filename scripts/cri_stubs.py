"""Makes the gRPC stubs of every proto of the repository, each beside it. Run by the build hook, or alone.

A proto is compiled under its path from the repository root: protobuf keeps one pool of file names per process, and a plain
``api.proto`` would collide with any other package that does the same.
"""

from pathlib import Path

PROTOS = (
    "cri/api/runtime_v1.proto",
    "controlplane/apiserver/storage/backends/etcd/api/etcd_v3.proto",
    "controlplane/apiserver/storage/encryption/api/kms_v2.proto",
    "node/kubelet/cm/device_manager/api/deviceplugin_v1beta1.proto",
    "node/kubelet/cm/dra/api/dra_v1.proto",
    "node/kubelet/pluginregistration/api/registration_v1.proto",
    "node/kubelet/podresources/api/podresources_v1.proto",
    "node/kubelet/volumes/csi/api/csi_v1.proto",
)


def generate(root: Path) -> list[Path]:
    """Write ``*_pb2.py``, ``*_pb2.pyi`` and ``*_pb2_grpc.py`` below ``root``; returns what was written."""
    from grpc_tools import protoc

    made = []
    for proto in PROTOS:
        arguments = ["protoc", f"--proto_path={root}", f"--python_out={root}", f"--pyi_out={root}", f"--grpc_python_out={root}"]
        if protoc.main([*arguments, str(root / proto)]) != 0:
            raise RuntimeError(f"protoc could not compile {proto}; its message is above")
        made += stubs_of(root, proto)
    return made


def stubs_of(root: Path, proto: str) -> list[Path]:
    """The files that are made of one proto."""
    stem = root / proto.removesuffix(".proto")
    return [stem.with_name(stem.name + ending) for ending in ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py")]


if __name__ == "__main__":
    for path in generate(Path(__file__).resolve().parent.parent):
        print(path)
