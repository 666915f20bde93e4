"""``pybernetes certs``: how long a cluster's certificates last, and new ones. Tables and words are kubeadm's."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.cluster.layout import Layout, data_dir_option, layout_of

if TYPE_CHECKING:
    from bootstrap.renewal import Expiration, Place


@click.group()
def certs() -> None:
    """Check, renew and issue the certificates of a cluster."""


@certs.command("check-expiration")
@data_dir_option
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def check_expiration(data_dir: str, output: str) -> None:
    """Show when each certificate expires, the authorities' included."""
    from bootstrap.renewal import RenewalError, expirations

    layout = _layout(data_dir)
    try:
        certificates, authorities = expirations(layout.pki, _places(layout))
    except RenewalError as error:
        raise click.ClickException(str(error)) from error
    now = datetime.now(UTC)
    if output == "json":
        import json

        rows = {"certificates": certificates, "certificateAuthorities": authorities}
        click.echo(json.dumps({name: [_as_json(row, now) for row in found] for name, found in rows.items()}, indent=2))
        return
    head = ("CERTIFICATE", "EXPIRES", "RESIDUAL TIME", "CERTIFICATE AUTHORITY", "EXTERNALLY MANAGED")
    click.echo("\n".join(table([head, *(_row(row, now) for row in certificates)])))
    click.echo()
    titles = ("CERTIFICATE AUTHORITY", "EXPIRES", "RESIDUAL TIME", "EXTERNALLY MANAGED")
    click.echo("\n".join(table([titles, *((*row[:3], row[4]) for row in (_row(row, now) for row in authorities))])))


@certs.command(epilog="Daemons take new files up within ten seconds. Copies of admin.kubeconfig elsewhere are not touched.")
@click.argument("name")
@data_dir_option
def renew(name: str, data_dir: str) -> None:
    """Issue the certificate NAME anew (see check-expiration), or `all` of them."""
    from bootstrap.renewal import RenewalError, authorities, is_external, renew

    layout = _layout(data_dir)
    known = {place.name: place for place in _places(layout)}
    if name in authorities(layout.pki):
        raise click.ClickException(
            f"{name} is an authority: everybody has to trust a new one before it signs, which this command cannot see to"
        )
    if name != "all" and name not in known:
        raise click.ClickException(f"there is no certificate {name!r}; known are all, {', '.join(known)}")
    for place in known.values() if name == "all" else (known[name],):
        if name == "all" and is_external(layout.pki, place.authority):
            click.echo(f"Detected external {place.authority}, {place.name} can't be renewed")
            continue
        try:
            renew(layout.pki, place)
        except RenewalError as error:
            raise click.ClickException(str(error)) from error
        click.echo(f"certificate {place.name} renewed")


@certs.command(
    epilog="FILE is YAML or JSON with server, serviceCIDRs, domain, apiNames, and machines: each with name, addresses and roles "
    "(control-plane, etcd, node). Ansible runs this command by itself."
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--pki-dir", type=click.Path(file_okay=False, path_type=Path), default="/etc/kubernetes/pki", show_default=True)
@click.option(
    "--renew", is_flag=True, help="Issue every certificate anew, however long the one there is lasts; not the authorities."
)
def issue(file: Path, pki_dir: Path, renew: bool) -> None:
    """Make the authorities of a cluster of several machines, and what each machine needs, as FILE describes them. What is
    current is kept, what was made is printed."""
    import yaml

    from bootstrap.machines import DescriptionError, ensure, read

    try:
        cluster = read(yaml.safe_load(file.read_text()))
    except (DescriptionError, yaml.YAMLError) as error:
        raise click.ClickException(f"{file}: {error}") from None
    for name in ensure(pki_dir, cluster, renew=renew):
        click.echo(name)


def _layout(data_dir: str) -> Layout:
    layout = layout_of(data_dir)
    if not (layout.pki / "ca.crt").exists():
        raise click.ClickException(f"no cluster was ever started in {layout.data_dir}")
    return layout


def _places(layout: Layout) -> "list[Place]":
    from bootstrap.renewal import places

    return places(layout.pki, layout.kubeconfigs, layout.admin_kubeconfig)


def _row(row: "Expiration", now: datetime) -> tuple[str, ...]:
    if row.certificate is None:
        return (f"!MISSING! {row.name}", "", "", "", "")
    end = row.certificate.not_after
    external = "yes" if row.external else "no"
    return (row.name, f"{end:%b %d, %Y %H:%M} UTC", residual((end - now).total_seconds()), row.authority, external)


def _as_json(row: "Expiration", now: datetime) -> dict[str, object]:
    made: dict[str, object] = {"name": row.name, "missing": row.certificate is None, "externallyManaged": row.external}
    if row.authority:
        made["caName"] = row.authority
    if row.certificate is not None:
        made["expirationDate"] = f"{row.certificate.not_after:%Y-%m-%dT%H:%M:%SZ}"
        made["residualTimeSeconds"] = int((row.certificate.not_after - now).total_seconds())
    return made


def residual(seconds: float) -> str:
    """A duration as upstream shortens it: 59s, 3m, 23h, 364d, 9y; ``<invalid>`` for one that is over."""
    if seconds < 0:
        return "<invalid>"
    for size, below, unit in ((1, 60, "s"), (60, 3600, "m"), (3600, 86400, "h"), (86400, 365 * 86400, "d")):
        if seconds < below:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds // (365 * 86400))}y"


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
