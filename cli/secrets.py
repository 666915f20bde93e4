"""``pybernetes secrets``: work on what is encrypted in storage. ``rewrite`` moves every object to the first key."""

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.cluster.layout import data_dir_option, layout_of

if TYPE_CHECKING:
    from apimachinery.gvk import GroupVersionResource
    from client.rest import Client

PAGE = 500
AT_ONCE = 8  # requests under way: storage is not the bottleneck, and others want to be served too
_METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
_METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
_SAY_EVERY = 2.0


@click.group()
def secrets() -> None:
    """Look after what is encrypted in storage."""


@dataclass
class Count:
    """How far one resource has come."""

    seen: int = 0
    rewritten: int = 0
    failures: list[str] = field(default_factory=list)


@secrets.command(
    epilog="Rotating a key: put the new one first in the file, rewrite, then take the old one out and start the server anew."
)
@click.argument("resources", nargs=-1)
@data_dir_option
@click.option("--kubeconfig", type=click.Path(dir_okay=False, path_type=Path), help="Use this file, not the data directory's.")
@click.option(
    "--encryption-provider-config",
    "config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The server's EncryptionConfiguration, if not the data directory's: it names the resources.",
)
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but the result.")
def rewrite(resources: Sequence[str], data_dir: str, kubeconfig: Path | None, config: Path | None, quiet: bool) -> None:
    """Write every encrypted object again, with the first provider of its rule; RESOURCES default to those of the file.

    Goes through the API server, which leaves alone what has its present form already: so the command may be stopped and run
    again at any time, and goes on where it was. No secret leaves the server.
    """
    layout = layout_of(data_dir)
    wanted = resources or _configured(config or layout.encryption_config)
    counts = asyncio.run(rewrite_all(kubeconfig or layout.admin_kubeconfig, wanted, quiet))
    for resource, count in counts.items():
        click.echo(f"{resource}: {count.rewritten} of {count.seen} written again")
    failures = [failure for count in counts.values() for failure in count.failures]
    for failure in failures[:20]:
        click.echo(f"failed: {failure}", err=True)
    if failures:
        raise click.ClickException(f"{len(failures)} objects could not be written; run this again")


def _configured(path: Path) -> list[str]:
    from controlplane.apiserver.storage.encryption.config import EncryptionConfigError, load

    try:
        return [resource for rule in load(path) for resource in rule.resources]
    except EncryptionConfigError as error:
        raise click.ClickException(str(error)) from error


async def rewrite_all(kubeconfig: Path, wanted: Sequence[str], quiet: bool) -> dict[str, Count]:
    """Rewrite the objects of these resources, wildcards too; failures are counted. Raises click.ClickException."""
    from apimachinery.errors import StatusError
    from cli.targets import discover
    from client.kubeconfig import KubeconfigError, load
    from client.rest import Client

    counts: dict[str, Count] = {}
    try:
        async with Client(load(kubeconfig), component="secrets-rewrite") as client:
            found = [(gvr, entry) for gvr, entry in await discover(client) if {"list", "patch"} <= set(entry["verbs"])]
            for gvr in expand(wanted, [gvr for gvr, _ in found]):
                name = f"{gvr.resource}.{gvr.group}" if gvr.group else gvr.resource
                counts[name] = await _one_resource(client, gvr, name, quiet)
    except (KubeconfigError, StatusError, ConnectionError) as error:
        raise click.ClickException(f"{error}; run this again, it goes on where it was") from error
    return counts


def expand(wanted: Iterable[str], known: "Sequence[GroupVersionResource]") -> "list[GroupVersionResource]":
    """The served resources that names and wildcards stand for, each once. Raises click.ClickException for an unknown name."""
    chosen: dict[tuple[str, str], GroupVersionResource] = {}
    for name in wanted:
        resource, _, group = name.partition(".")
        fits = [
            one for one in known if resource in ("*", one.resource) and (group in ("*", one.group) and "/" not in one.resource)
        ]
        if not fits and resource != "*":
            raise click.ClickException(f"the server doesn't have a resource {name!r} that can be listed and patched")
        for one in fits:
            chosen.setdefault((one.group, one.resource), one)
    return list(chosen.values())


async def _one_resource(client: "Client", gvr: "GroupVersionResource", name: str, quiet: bool) -> Count:
    count, token, said = Count(), None, time.monotonic()
    limit = asyncio.Semaphore(AT_ONCE)
    while True:
        page = await client.list(gvr, limit=PAGE, continue_token=token, accept=_METADATA_LIST)
        async with asyncio.TaskGroup() as group:
            for item in page["items"]:
                group.create_task(_one_object(client, gvr, item["metadata"], count, limit))
        token = page["metadata"].get("continue")
        if not token:
            return count
        if not quiet and time.monotonic() - said > _SAY_EVERY:
            said = time.monotonic()
            left = page["metadata"].get("remainingItemCount")
            click.echo(f"{name}: {count.seen} done{'' if left is None else f', {left} to go'}")


async def _one_object(
    client: "Client", gvr: "GroupVersionResource", metadata: "dict[str, str]", count: Count, limit: asyncio.Semaphore
) -> None:
    """An empty patch: the object stays as it is, its stored form becomes the present one."""
    import json

    from apimachinery.errors import StatusError

    where, name = metadata.get("namespace"), metadata["name"]
    headers = {"Accept": _METADATA, "Content-Type": "application/merge-patch+json"}
    async with limit:
        count.seen += 1
        try:
            answer = await client.raw("PATCH", gvr.path(where, name), body=b"{}", headers=headers)
        except StatusError as error:
            if error.code != 404:  # deleted meanwhile
                count.failures.append(f"{gvr.resource} {where or ''}{'/' if where else ''}{name}: {error.message}")
            return
        if json.loads(answer)["metadata"]["resourceVersion"] != metadata["resourceVersion"]:
            count.rewritten += 1
