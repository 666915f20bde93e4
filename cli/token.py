"""``pybernetes token``: the tokens with which new nodes join. Forms, defaults and words are kubeadm's."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cli.certs import residual, table
from cli.cluster.layout import data_dir_option, layout_of
from component.flags import COMMA_LIST, DURATION

if TYPE_CHECKING:
    from bootstrap.tokens import Token
    from client.rest import Client

_Result = TypeVar("_Result")

kubeconfig_option = click.option(
    "--kubeconfig", type=click.Path(dir_okay=False, path_type=Path), help="Use this file, not the data directory's."
)


@click.group()
def token() -> None:
    """Manage the tokens with which new nodes join."""


@token.command()
def generate() -> None:
    """Print a random token, and do nothing with it."""
    from bootstrap.tokens import generate as made

    click.echo(made())


@token.command(
    epilog="A node joins with: pybernetes token create --print-kubeconfig > bootstrap.kubeconfig; "
    "pybernetes kubelet --bootstrap-kubeconfig=bootstrap.kubeconfig --kubeconfig=kubelet.kubeconfig --rotate-certificates ..."
)
@click.argument("token", required=False)
@data_dir_option
@kubeconfig_option
@click.option("--ttl", type=DURATION, default="24h", show_default=True, help="How long it counts; 0 is for ever.")
@click.option("--usages", type=COMMA_LIST, default="signing,authentication", show_default=True, help="What it may be used for.")
@click.option("--groups", type=COMMA_LIST, default=None, help="Groups of who shows it [default: kubeadm's for nodes].")
@click.option("--description", default="", help="For people, in the list.")
@click.option("--print-kubeconfig", is_flag=True, help="Print a kubeconfig for --bootstrap-kubeconfig in place of the token.")
def create(
    token: str | None,
    data_dir: str,
    kubeconfig: Path | None,
    ttl: float,
    usages: tuple[str, ...],
    groups: tuple[str, ...] | None,
    description: str,
    print_kubeconfig: bool,
) -> None:
    """Create a token (a random one, or TOKEN) and print it. Also binds the roles that a joining node needs."""
    from bootstrap import tokens

    expires = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=ttl) if ttl else None
    try:
        token_id, secret = tokens.parse(token or tokens.generate())
        granted = (tokens.DEFAULT_GROUP,) if groups is None else groups
        made = tokens.Token(token_id, secret, expires, usages, description, granted)
        tokens.check(made)
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    config = kubeconfig or layout_of(data_dir).admin_kubeconfig
    _with_client(config, lambda client: _create(client, made))
    click.echo(_bootstrap_kubeconfig(config, str(made)) if print_kubeconfig else str(made))


async def _create(client: "Client", made: "Token") -> None:
    from apimachinery.errors import StatusError
    from apimachinery.gvk import GroupVersionResource
    from apimachinery.resources import SECRETS
    from bootstrap import tokens

    try:
        await client.create(SECRETS, tokens.to_secret(made), tokens.NAMESPACE)
    except StatusError as error:
        if error.reason != "AlreadyExists":
            raise
        raise click.ClickException(f'a token with id "{made.id}" already exists') from None
    bindings = GroupVersionResource("rbac.authorization.k8s.io", "v1", "clusterrolebindings")
    for binding in tokens.join_roles():
        try:
            await client.create(bindings, binding)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise


def _bootstrap_kubeconfig(admin: Path, token: str) -> str:
    import yaml

    from client.kubeconfig import build, load

    config = load(admin)
    ca = config.ca_data or (Path(config.ca_file).read_bytes() if config.ca_file else None)
    return yaml.safe_dump(build(config.server, ca=ca, token=token, user="tls-bootstrap-token-user"), sort_keys=False).rstrip()


@token.command("list")
@data_dir_option
@kubeconfig_option
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def list_tokens(data_dir: str, kubeconfig: Path | None, output: str) -> None:
    """List tokens."""
    found = _with_client(kubeconfig or layout_of(data_dir).admin_kubeconfig, _list)
    now = datetime.now(UTC)
    if output == "json":
        import json

        click.echo(json.dumps([_as_json(one) for one in found], indent=2))
        return
    if found:
        head = ("TOKEN", "TTL", "EXPIRES", "USAGES", "DESCRIPTION", "EXTRA GROUPS")
        click.echo("\n".join(table([head, *(_row(one, now) for one in found)])))


async def _list(client: "Client") -> "list[Token]":
    from apimachinery.resources import SECRETS
    from bootstrap import tokens

    selector = f"type={tokens.TYPE}"
    listed = await client.list(SECRETS, tokens.NAMESPACE, field_selector=selector)
    found = [made for item in listed["items"] if (made := tokens.from_secret(item)) is not None]
    return sorted(found, key=lambda one: (one.expires is None, one.expires or datetime.max.replace(tzinfo=UTC), one.id))


def _row(one: "Token", now: datetime) -> tuple[str, ...]:
    if one.expires is None:
        left, end = "<forever>", "<never>"
    else:
        left, end = residual((one.expires - now).total_seconds()), f"{one.expires:%Y-%m-%dT%H:%M:%SZ}"
    return (str(one), left, end, ",".join(one.usages) or "<none>", one.description or "<none>", ",".join(one.groups) or "<none>")


def _as_json(one: "Token") -> dict[str, Any]:
    made: dict[str, Any] = {"token": str(one), "usages": list(one.usages), "groups": list(one.groups)}
    if one.description:
        made["description"] = one.description
    if one.expires is not None:
        made["expires"] = f"{one.expires:%Y-%m-%dT%H:%M:%SZ}"
    return made


@token.command()
@click.argument("tokens", metavar="TOKEN-OR-ID...", nargs=-1, required=True)
@data_dir_option
@kubeconfig_option
def delete(tokens: tuple[str, ...], data_dir: str, kubeconfig: Path | None) -> None:
    """Delete tokens, given whole or by their ids."""
    from bootstrap.tokens import TOKEN, TOKEN_ID

    ids = []
    for given in tokens:
        match = TOKEN.fullmatch(given)
        if match is None and not TOKEN_ID.fullmatch(given):
            raise click.ClickException(r'a token ID must have the form "\A([a-z0-9]{6})\z", a token also its secret after a dot')
        ids.append(match[1] if match else given)
    _with_client(kubeconfig or layout_of(data_dir).admin_kubeconfig, lambda client: _delete(client, ids))


async def _delete(client: "Client", ids: list[str]) -> None:
    from apimachinery.errors import StatusError
    from apimachinery.resources import SECRETS
    from bootstrap.tokens import NAMESPACE, PREFIX

    for each in ids:
        try:
            await client.delete(SECRETS, PREFIX + each, NAMESPACE)
        except StatusError as error:
            if error.code != 404:
                raise
            raise click.ClickException(f'there is no bootstrap token "{each}"') from None
        click.echo(f'bootstrap token "{each}" deleted')


def _with_client(kubeconfig: Path, act: "Callable[[Client], Awaitable[_Result]]") -> _Result:
    from apimachinery.errors import StatusError
    from client.kubeconfig import KubeconfigError, load
    from client.rest import Client

    async def run() -> _Result:
        async with Client(load(kubeconfig), component="token") as client:
            return await act(client)

    try:
        return asyncio.run(run())
    except (KubeconfigError, StatusError, ConnectionError) as error:
        raise click.ClickException(str(error)) from error
