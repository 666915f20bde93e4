"""``pybernetes addon``: objects that a cluster needs beside its daemons, for ``kubectl apply``. Called by ansible."""

import ipaddress

import click


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def addon() -> None:
    """Print the objects that a cluster needs beside its daemons."""


@addon.command(epilog="Example: pybernetes addon dns --cluster-dns 10.96.0.10 | kubectl apply -f -")
@click.option("--cluster-dns", required=True, metavar="ADDRESS", help="Address of the Service kube-system/kube-dns.")
def dns(cluster_dns: str) -> None:
    """The Service that pods ask for names, and what the DNS servers may do, as YAML."""
    import yaml

    from bootstrap.cluster_dns import objects

    try:
        address = str(ipaddress.ip_address(cluster_dns))
    except ValueError as error:
        raise click.UsageError(f"--cluster-dns: {error}") from None
    click.echo(yaml.safe_dump_all((document for _, document in objects(address)), sort_keys=False), nl=False)
