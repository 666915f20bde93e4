"""``pybernetes status``: which processes of a cluster run, whether they answer, and what the node says."""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from cli.cluster import etcd, plan, probe, processes
from cli.cluster.layout import Layout, data_dir_option, layout_of
from cli.cluster.processes import Process
from cli.cluster.settings import Settings, load


@dataclass(frozen=True, slots=True)
class Part:
    """One row: a process of the cluster and how it is."""

    name: str
    process: Process | None
    health: str  # "ok", or what is wrong

    @property
    def well(self) -> bool:
        return self.process is not None and self.health == "ok"


@click.command(epilog="Exit status: 0 when everything runs and the node is Ready, 1 otherwise.")
@data_dir_option
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.pass_context
def status(ctx: click.Context, data_dir: str, output: str) -> None:
    """Show which parts of a cluster run and which do not."""
    layout = layout_of(data_dir)
    settings = load(layout.settings)
    parts = [look(layout, settings, name) for name in plan.uses(settings)]
    node = node_state(layout, settings)
    if output == "json":
        click.echo(json.dumps({"parts": [as_json(part) for part in parts], "node": node}, indent=2))
    else:
        click.echo(table([("PART", "STATE", "PID", "UPTIME", "MEMORY", "HEALTH"), *(row(part) for part in parts)]))
        click.echo(f"\nnode {settings.node_name or '?'}: {node}")
    ctx.exit(0 if all(part.well for part in parts) and node == "Ready" else 1)


def look(layout: Layout, settings: Settings, name: str) -> Part:
    process = processes.find(name, layout.data_dir, layout.run) if layout.run.exists() else None
    if process is None:
        return Part(name, None, f"not running; pybernetes up --data-dir {layout.data_dir}")
    return Part(name, process, health(layout, settings, name))


def health(layout: Layout, settings: Settings, name: str) -> str:
    """ "ok", or the first complaint of the process's own health checks."""
    try:
        if name == plan.ETCD:
            return etcd.health(layout, settings)
        for address, port, path in secure_doors(settings).get(name, ()):
            code, body = probe.api_get(layout, address, port, path)
            if code != 200:
                return failed_checks(body)
        for port in plain_doors(settings) if name == plan.NODE else ():
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=2):
                pass
    except urllib.error.HTTPError as error:
        return failed_checks(error.read().decode(errors="replace"))
    except OSError as error:
        return f"does not answer: {getattr(error, 'reason', error)}"
    return "ok"


def plain_doors(settings: Settings) -> Sequence[int]:
    """Ports of loopback at which the parts of the node's process tell how they are."""
    return settings.kubelet_healthz_port, settings.proxy_healthz_port, settings.dns_metrics_port


def secure_doors(settings: Settings) -> Mapping[str, Sequence[tuple[str, int, str]]]:
    """Address, port and path at which a process tells by HTTPS how it is."""
    return {
        plan.APISERVER: [(settings.node_ip, settings.secure_port, "/readyz?verbose")],
        plan.CONTROL: [
            ("127.0.0.1", settings.scheduler_port, "/healthz?verbose"),
            ("127.0.0.1", settings.controller_manager_port, "/healthz?verbose"),
        ],
    }


def failed_checks(body: Any) -> str:
    text = body if isinstance(body, str) else json.dumps(body)
    failed = [line.strip() for line in text.splitlines() if line.startswith("[-]")]
    return "; ".join(failed) or text.strip()[:80] or "failed"


def node_state(layout: Layout, settings: Settings) -> str:
    """``Ready``, ``NotReady: reason`` or why nothing is known."""
    if not (layout.pki / "admin.crt").exists():
        return f"no cluster was ever started in {layout.data_dir}"
    try:
        code, node = probe.api_get(layout, settings.node_ip, settings.secure_port, f"/api/v1/nodes/{settings.node_name}")
    except OSError:
        return "unknown (the API server does not answer)"
    if code != 200:
        return "not registered"
    if probe.node_ready(node):
        return "Ready"
    conditions = node.get("status", {}).get("conditions", [])
    why = next((item.get("message", "") for item in conditions if item.get("type") == "Ready"), "no Ready condition")
    return f"NotReady: {why}"


def row(part: Part) -> tuple[str, ...]:
    if part.process is None:
        return (part.name, "stopped", "-", "-", "-", part.health)
    memory = f"{part.process.memory() / 1e6:.0f} MB"
    return (part.name, "running", str(part.process.pid), span(part.process.uptime()), memory, part.health)


def as_json(part: Part) -> dict[str, Any]:
    running = part.process is not None
    made = {"name": part.name, "running": running, "health": part.health}
    if part.process is not None:
        made |= {"pid": part.process.pid, "uptimeSeconds": round(part.process.uptime(), 1), "memoryBytes": part.process.memory()}
    return made


def span(seconds: float) -> str:
    """A short duration: 45s, 12m, 5h, 3d."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Left-aligned columns three spaces apart, as kubectl prints them."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return "\n".join("   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in rows)
