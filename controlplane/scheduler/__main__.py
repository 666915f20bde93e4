"""scheduler: flags and wiring."""

import asyncio
from collections.abc import Mapping
from typing import Any

import click

from apimachinery.resources import DEVICE_TAINT_RULES, RESOURCE_CLAIMS
from client.events import Recorder
from client.informer import InformerFactory
from client.served import serves
from component import flags, logs
from component.daemon import Daemon, run
from component.featuregates import Gates
from component.features import DEFAULTS
from controlplane import hosting
from controlplane.scheduler import config
from controlplane.scheduler.scheduler import Scheduler

_log = logs.get(__name__)


def _params() -> list[click.Parameter]:
    return [
        *hosting.params(10259, "kube-scheduler"),
        flags.option("--config", type=click.Path(), help="A KubeSchedulerConfiguration file."),
    ]


async def main(options: Mapping[str, Any]) -> None:
    settings = config.read(options.get("config"))

    async def lead(host: hosting.Host) -> None:
        await run_scheduler(settings, host, options["feature_gates"])

    await hosting.host(config.leader_election(options, settings.leader_election), "scheduler", lead)


async def run_scheduler(settings: config.SchedulerConfig, host: hosting.Host, gates: Gates = DEFAULTS) -> None:
    synced = host.not_ready_until_synced()
    clock = host.client.clock
    informers = InformerFactory(host.client, latest=True)
    recorder = Recorder(host.client, settings.profiles[0].scheduler_name, host.identity, metrics=host.metrics)
    devices = await serves(host.client, RESOURCE_CLAIMS)
    if not devices:
        _log.warning("The server has no resource.k8s.io/v1: pods with claims are not scheduled")
    rules = devices and gates.enabled("DRADeviceTaintRules") and await serves(host.client, DEVICE_TAINT_RULES)
    scheduler = Scheduler(
        host.client, informers, recorder, settings, clock, host.metrics, gates, devices=devices, taint_rules=rules
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(recorder.run(), name="events")
        group.create_task(informers.run(), name="informers")
        await informers.wait_synced()
        synced.set()
        _log.info("Scheduling starts", profiles=[each.scheduler_name for each in settings.profiles])
        group.create_task(scheduler.run(), name="scheduler")


DAEMON = Daemon("scheduler", "Finds every new pod a node: filter, score, bind.", _params(), main)

if __name__ == "__main__":
    run(DAEMON)
