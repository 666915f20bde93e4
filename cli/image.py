"""``pybernetes image``: brings local archives into the cluster's container runtime, and makes the two that need no registry."""

import contextlib
import gzip
import shutil
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from cli.cluster import containerd
from cli.cluster.layout import data_dir_option, layout_of
from cli.cluster.settings import load


@click.group()
def image() -> None:
    """Import container images from archives, and make the product's own."""


@image.command("import", epilog="Example: pybernetes image import app.tar && kubectl run app --image=app:1")
@data_dir_option
@click.option(
    "--containerd", "endpoint", default="", help="Socket of a containerd, in place of the data directory's: unix:///..."
)
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
def import_(data_dir: str, endpoint: str, files: Sequence[Path]) -> None:
    """Load OCI or docker archives (`docker save`, `podman save`) into the cluster's runtime."""
    layout = layout_of(data_dir)
    socket = endpoint.removeprefix("unix://") or containerd.socket_of(layout, load(layout.settings))
    if not Path(socket).exists():
        raise click.ClickException(
            f"no container runtime at {socket}; start the cluster first: pybernetes up --data-dir {data_dir}"
        )
    for file in files:
        began = time.monotonic()
        click.echo(f"importing {file} ({file.stat().st_size / 1e6:.1f} MB)")
        with uncompressed(file.absolute(), None if endpoint else layout.images) as archive:
            for reference in containerd.import_archive(socket, archive):
                click.echo(f"  {reference}")
        click.echo(f"  done in {time.monotonic() - began:.1f} s")


@image.command(epilog="Example: pybernetes image make pause pause.tar && ctr -n k8s.io images import pause.tar")
@click.argument("name", type=click.Choice(["pause", "demo"]))
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--reference", default="", help="What to call it; as `up` and `demo` do by default.")
def make(name: str, file: Path, reference: str) -> None:
    """Write an image made of this machine's own files (catatonit, busybox-static), where no registry can be reached."""
    from bootstrap import demo, images

    try:
        made = (
            images.pause_image(reference or images.PAUSE_REFERENCE)
            if name == "pause"
            else demo.demo_image(reference or demo.REFERENCE)
        )
    except FileNotFoundError as error:
        raise click.ClickException(str(error)) from None
    images.write_archive([made], file)
    click.echo(made.reference)


@contextlib.contextmanager
def uncompressed(file: Path, scratch: Path | None) -> Iterator[Path]:
    """``file``, or what it holds when it is compressed by gzip (`docker save app | gzip`), which ctr does not read.
    ``scratch`` is where that is put meanwhile, None for the system's folder."""
    with file.open("rb") as opened:
        compressed = opened.read(2) == b"\x1f\x8b"
    if not compressed:
        yield file
        return
    with tempfile.NamedTemporaryFile(dir=scratch, suffix=".tar") as plain:
        try:
            with gzip.open(file) as source:
                shutil.copyfileobj(source, plain, 1 << 20)
        except (OSError, EOFError, zlib.error) as error:
            raise click.ClickException(f"cannot uncompress {file}: {error}") from error
        plain.flush()
        yield Path(plain.name)
