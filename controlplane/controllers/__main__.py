"""controller-manager: flags and wiring. Builds the environment, asks the catalog for controllers, runs them all."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

from client.events import Recorder
from client.informer import InformerFactory
from client.rest import Client
from client.served import serves
from component import flags, logs
from component.daemon import Daemon, run
from controlplane import hosting
from controlplane.controllers import catalog
from controlplane.controllers.controller import Controller, Environment
from controlplane.controllers.csr_signing import SIGNERS
from controlplane.controllers.lib.accounts import Accounts

_log = logs.get(__name__)

_CONCURRENCY = {
    "deployment": 5,
    "replicaset": 5,
    "endpoint": 5,
    "service-endpoint": 5,
    "namespace": 10,
    "gc": 20,
    "daemonset": 2,
    "job": 5,
    "cron-job": 5,
    "statefulset": 5,
    "rc": 5,
    "resource-quota": 5,
    "ephemeralvolume": 5,
    "resource-claim": 50,
    "horizontal-pod-autoscaler": 5,
    "ttl-after-finished": 5,
    "validating-admission-policy-status": 5,
}


def _signing_files() -> list[click.Parameter]:
    found: list[click.Parameter] = []
    for word in ("", *(f"{word}-" for word in SIGNERS.values())):
        whose = f"the {word.rstrip('-')} signer" if word else "the four signers of kubernetes.io"
        found += [
            flags.option(f"--cluster-signing-{word}cert-file", type=flags.INPUT_FILE, help=f"Certificate of {whose}."),
            flags.option(f"--cluster-signing-{word}key-file", type=flags.INPUT_FILE, help=f"Key of {whose}."),
        ]
    return found


def _autoscaling() -> list[click.Parameter]:
    prefix = "--horizontal-pod-autoscaler"
    times = {
        "sync-period": ("15s", "Pause between two looks at one autoscaler."),
        "downscale-stabilization": ("5m", "How long a higher wish keeps a target from shrinking."),
        "cpu-initialization-period": ("5m", "How long after its start a pod's CPU may not count."),
        "initial-readiness-delay": ("30s", "Unready within this time of its start: a pod was never ready."),
    }
    return [
        *(
            flags.option(f"{prefix}-{name}", type=flags.DURATION, default=value, help=text)
            for name, (value, text) in times.items()
        ),
        flags.option(
            f"{prefix}-tolerance", type=click.FloatRange(0), default=0.1, help="Deviation from a target that is ignored."
        ),
    ]


def _params() -> list[click.Parameter]:
    workers = [
        flags.option(f"--concurrent-{name}-syncs", type=click.IntRange(1), default=count, help=f"Workers of the {name} loop.")
        for name, count in _CONCURRENCY.items()
    ]
    return [
        *hosting.params(10257, "kube-controller-manager"),
        flags.option("--controllers", type=flags.COMMA_LIST, default="*", help="* for all, foo to add, -foo to leave out."),
        flags.option("--cluster-name", default="kubernetes", help="Accepted for compatibility; nothing here depends on it."),
        flags.switch("--allocate-node-cidrs", False, "Give each node a range of pod addresses."),
        flags.option("--cluster-cidr", default="", help="The range of pod addresses; needed by --allocate-node-cidrs."),
        flags.option("--node-cidr-mask-size", type=click.IntRange(0, 128), default=0, help="Size of a node's range."),
        flags.option("--node-cidr-mask-size-ipv4", type=click.IntRange(0, 32), default=0, help="The same for IPv4 [24]."),
        flags.option("--node-cidr-mask-size-ipv6", type=click.IntRange(0, 128), default=0, help="The same for IPv6 [64]."),
        flags.option("--service-cluster-ip-range", default="", help="Range of Services, kept out of nodes' ranges."),
        flags.option("--root-ca-file", type=flags.INPUT_FILE, help="CA bundle that every namespace gets as kube-root-ca.crt."),
        flags.option("--node-monitor-grace-period", type=flags.DURATION, default="50s", help="Silence before Unknown."),
        flags.option("--node-startup-grace-period", type=flags.DURATION, default="60s", help="The same before it ever spoke."),
        flags.option("--node-monitor-period", type=flags.DURATION, default="5s", help="Accepted; nodes have timers here."),
        flags.option("--terminated-pod-gc-threshold", type=int, default=12500, help="Finished pods to keep; 0 for all."),
        flags.option("--resource-quota-sync-period", type=flags.DURATION, default="5m", help="Pause between full recounts."),
        flags.switch("--enable-garbage-collector", True, "Delete objects whose owners are gone."),
        flags.switch(
            "--use-service-account-credentials",
            True,  # as kubeadm has it; upstream's own default leaves all controllers one identity
            "Each controller writes as a service account of its own. If false, the kubeconfig's identity needs all their roles.",
        ),
        flags.option("--mirroring-concurrent-service-endpoint-syncs", type=click.IntRange(1), default=5, help="As above."),
        flags.option("--cluster-signing-duration", type=flags.DURATION, default="8760h", help="Longest life of a certificate."),
        *_signing_files(),
        *_autoscaling(),
        flags.option(
            "--legacy-service-account-token-clean-up-period",
            type=flags.DURATION,
            default="8760h",
            help="How long an old token may go unused.",
        ),
        flags.option("--service-account-private-key-file", type=flags.INPUT_FILE, help="Signs tokens for Secrets of their type."),
        flags.accepted("--configure-cloud-routes"),
        flags.accepted("--flex-volume-plugin-dir"),
        flags.option("--local-path-dir", default="", help="Make volumes of the class local-path below this folder of nodes."),
        flags.option(
            "--pv-recycler-pod-template-filepath-hostpath", type=flags.INPUT_FILE, help="Pod that empties hostPath volumes."
        ),
        flags.option("--pv-recycler-pod-template-filepath-nfs", type=flags.INPUT_FILE, help="Pod that empties NFS volumes."),
        flags.option("--attach-detach-force-after", type=flags.DURATION, default="6m", help="Wait for an unreachable node."),
        *workers,
    ]


async def main(options: Mapping[str, Any]) -> None:
    descriptors = catalog.chosen(options["controllers"])
    catalog.check(options)

    async def lead(host: hosting.Host) -> None:
        await run_controllers(options, descriptors, host)

    await hosting.host(options, "controller-manager", lead)


async def run_controllers(options: Mapping[str, Any], descriptors: list[catalog.Descriptor], host: hosting.Host) -> None:
    """All informers are asked for before any starts, so that each collection is listed once and watched once."""
    synced = host.not_ready_until_synced()
    descriptors = [each for each in descriptors if await _can_run(host.client, each)]
    informers = InformerFactory(host.client, latest=True)
    recorders: dict[str, Recorder] = {}

    def recorder(name: str) -> Recorder:
        if name not in recorders:
            recorders[name] = Recorder(host.client, name, host.identity, metrics=host.metrics)
        return recorders[name]

    env = Environment(host.client, informers, recorder, host.client.clock, options, host.metrics)
    if not options["use_service_account_credentials"]:
        await _run(env, [(each, env) for each in descriptors], recorders, synced)
        return
    async with Accounts(host.client) as accounts:
        given = [(each, replace(env, client=accounts.client(each.account)) if each.account else env) for each in descriptors]
        await _run(env, given, recorders, synced)


async def _can_run(client: Client, descriptor: catalog.Descriptor) -> bool:
    if descriptor.needs is None or await serves(client, descriptor.needs):
        return True
    _log.warning("The server does not have what this controller looks after", controller=descriptor.name)
    return False


async def _run(
    env: Environment,
    given: Sequence[tuple[catalog.Descriptor, Environment]],
    recorders: Mapping[str, Recorder],
    synced: asyncio.Event,
) -> None:
    """Sets ``synced`` when all that the controllers look at has been read once."""
    informers = env.informers
    controllers: list[Controller] = []
    for each, its_own in given:
        made = each.make(its_own, env.options)
        if made is None:
            _log.v(1, "Controller has nothing to do with these flags", controller=each.name)
            continue
        controllers.append(made)
    async with asyncio.TaskGroup() as group:
        for name, each_recorder in recorders.items():
            group.create_task(each_recorder.run(), name=f"events:{name}")
        group.create_task(informers.run(), name="informers")
        await informers.wait_synced()
        synced.set()
        _log.info("Controllers start", count=len(controllers))
        for controller in controllers:
            group.create_task(controller.run(), name=controller.name)


DAEMON = Daemon(
    "controller-manager",
    "Moves what is towards what is wanted: Deployments, ReplicaSets, endpoints, namespaces, nodes, garbage.",
    _params(),
    main,
)

if __name__ == "__main__":
    run(DAEMON)
