"""``pybernetes snapshot`` and ``pybernetes migrate``: backups of the store, and the way from one kind of store to the other."""

import asyncio
import functools
import json
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cli.cluster.layout import DEFAULT_DATA_DIR, layout_of
from component.flags import COMMA_LIST, DURATION

if TYPE_CHECKING:
    from controlplane.apiserver.config import Storage
    from controlplane.apiserver.storage.snapshots.service import Status

_FILE = click.Path(dir_okay=False, path_type=Path)
_Command = TypeVar("_Command", bound=Callable[..., Any])
SUFFIX = ".snapshot"


def storage_options(prefix: str = "") -> Callable[[_Command], _Command]:
    """The flags that say where a store is, as the API server has them; ``prefix`` tells two stores of one command apart."""
    names = [
        click.option(f"--{prefix}data-dir", help=f"The data directory of a cluster ({DEFAULT_DATA_DIR})."),
        click.option(f"--{prefix}storage-path", type=_FILE, help="The database file of an API server on SQLite."),
        click.option(f"--{prefix}etcd-servers", type=COMMA_LIST, default="", help="URLs of the etcd cluster's members."),
        click.option(f"--{prefix}etcd-cafile", type=_FILE, help="CA of the members' certificates."),
        click.option(f"--{prefix}etcd-certfile", type=_FILE, help="Client certificate shown to etcd."),
        click.option(f"--{prefix}etcd-keyfile", type=_FILE, help="Key of the client certificate."),
        click.option(f"--{prefix}etcd-prefix", default="/registry", show_default=True, help="What all keys in etcd begin with."),
    ]

    def decorate(command: _Command) -> _Command:
        return functools.reduce(lambda made, option: option(made), reversed(names), command)

    return decorate


def store_from(options: dict[str, Any], prefix: str = "") -> "Storage":
    """Raises click.UsageError for flags that do not fit together."""
    from controlplane.apiserver.config import Storage
    from controlplane.apiserver.storage.backends.etcd.config import EtcdConfig, checked

    given = {name.removeprefix(prefix): value for name, value in options.items() if name.startswith(prefix)}
    if not given["etcd_servers"]:
        if given["storage_path"]:
            return Storage("sqlite", given["storage_path"])
        from cli.cluster import etcd
        from cli.cluster.settings import load

        layout = layout_of(given["data_dir"] or DEFAULT_DATA_DIR)
        return etcd.store(layout, load(layout.settings))
    files = (given["etcd_cafile"], given["etcd_certfile"], given["etcd_keyfile"])
    try:
        return Storage("etcd3", etcd=checked(EtcdConfig(given["etcd_servers"], *files, given["etcd_prefix"], compact_every=0)))
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _run(work: Callable[[], Any]) -> Any:
    """The outcome of a piece of work, or a sentence about why there is none."""
    from component.errors import OperatorError

    try:
        return work()
    except (OperatorError, OSError, ExceptionGroup) as problem:
        error: BaseException = problem
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if not isinstance(error, OperatorError | OSError):
            raise
        if isinstance(error, OSError) and error.filename:
            raise click.ClickException(f"{error.filename}: {error.strerror}") from None
        raise click.ClickException(str(error)) from None


@click.group()
def snapshot() -> None:
    """Save all objects of a cluster to a file, look at such files, restore them."""


@snapshot.command()
@click.argument("file", type=_FILE)
@storage_options()
def save(file: Path, **options: Any) -> None:
    """Write all objects to FILE, as they are at one moment; the cluster may be running.

    Secrets are in it as they are stored: encrypted if the API server encrypts them. The file is readable by its owner alone.
    """
    _say(file, _run(lambda: _save(store_from(options), file)))


@snapshot.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="How to show it.")
def status(file: Path, output: str) -> None:
    """Verify FILE to its last byte and show what is in it."""
    from controlplane.apiserver.storage.snapshots import service

    found = _run(lambda: service.status(file))
    if output == "json":
        click.echo(json.dumps(found.as_dict(), indent=2))
        return
    _say(file, found)
    for resource, count in sorted(found.resources.items()):
        click.echo(f"  {resource}: {count}")


@snapshot.command(
    epilog="Stop every API server first and start them after it. Controllers and kubelets may go on running: what they remember "
    "of the time after the snapshot they are told to forget."
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@storage_options()
@click.option("--bump-revision", type=click.IntRange(0), help="How far the new revision lies above the snapshot's [1000000000].")
def restore(file: Path, bump_revision: int | None, **options: Any) -> None:
    """Fill an empty store from FILE. A store that holds anything is refused."""
    from controlplane.apiserver.storage.snapshots import service, targets

    bump = targets.BUMP if bump_revision is None else bump_revision
    found = _run(lambda: asyncio.run(service.restore(file, store_from(options), bump)))
    click.echo(f"restored {found.keys} keys of revision {found.header.revision}, taken {found.header.created}")


@snapshot.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@storage_options()
@click.option("--every", type=DURATION, default="1h", show_default=True, help="How often.")
@click.option("--keep", type=click.IntRange(1), default=24, show_default=True, help="How many to keep; older ones are removed.")
@click.option("--count", type=click.IntRange(1), help="Stop after so many; without it, go on for ever.")
def schedule(folder: Path, every: float, keep: int, count: int | None, **options: Any) -> None:
    """Save a snapshot into FOLDER again and again. One that fails is reported, and the next one tried.

    Run it as a service of its own, or with --count=1 from a timer.
    """
    from controlplane.apiserver.storage.snapshots import service

    store = store_from(options)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    failed = False
    for number in range(count) if count else iter(int, 1):
        if number or not count:
            time.sleep(every if number else 0)
        file = folder / f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}{SUFFIX}"
        try:
            _say(file, _run(functools.partial(_save, store, file)))
        except click.ClickException as error:
            failed = True
            click.echo(f"failed: {error.message}", err=True)
            continue
        for old in service.expired(folder, keep, f"*{SUFFIX}"):
            old.unlink()
    if failed:
        raise click.ClickException("not every snapshot could be saved; what went wrong is above")


def _save(store: "Storage", file: Path) -> "Status":
    from controlplane.apiserver.storage.snapshots import service

    return asyncio.run(service.save(store, file))


def _say(file: Path, found: "Status") -> None:
    header = found.header
    click.echo(f"{file}: {found.keys} keys of revision {header.revision}, {header.source}, {header.created}, {found.size} bytes")


@click.command(
    epilog="Example: pybernetes migrate --from-data-dir /var/lib/pybernetes --to-etcd-servers https://10.0.0.1:2379 "
    "--to-etcd-cafile ca.crt --to-etcd-certfile client.crt --to-etcd-keyfile client.key"
)
@storage_options("from-")
@storage_options("to-")
def migrate(**options: Any) -> None:
    """Move a cluster's objects from SQLite to etcd, or back: into an empty store, with every API server stopped.

    The store that is left stays as it was.
    """
    from controlplane.apiserver.storage.snapshots import service

    source, target = store_from(options, "from_"), store_from(options, "to_")
    if source == target:
        raise click.UsageError("--from-... and --to-... name the same store")

    with tempfile.TemporaryDirectory(prefix="pybernetes-migrate-") as folder:
        between = Path(folder, f"between{SUFFIX}")
        found = _run(lambda: asyncio.run(service.move(source, target, between)))
    click.echo(f"moved {found.keys} keys from {source.backend} to {target.backend}")
