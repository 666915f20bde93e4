"""The fields of a KubeletConfiguration about resources: what they say, and upstream's objections."""

import re

import click
import pytest

from node.kubelet.__main__ import DAEMON, read_config
from node.kubelet.config import API_VERSION, ConfigError, KubeletConfig, document, parse

HEAD = f"apiVersion: {API_VERSION}\nkind: KubeletConfiguration\n"

ALL = """
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true", strict-cpu-reservation: "true"}
cpuManagerReconcilePeriod: 5s
memoryManagerPolicy: Static
reservedMemory: [{numaNode: 0, limits: {memory: 1Gi, hugepages-2Mi: 4Mi}}, {numaNode: 1, limits: {memory: 1Gi}}]
topologyManagerPolicy: restricted
topologyManagerScope: pod
topologyManagerPolicyOptions: {prefer-closest-numa-nodes: "true"}
reservedSystemCPUs: 0,2-3
kubeReserved: {cpu: 500m, memory: 1Gi, pid: "100"}
memorySwap: {swapBehavior: LimitedSwap}
"""


def test_what_is_said() -> None:
    config = parse(HEAD + ALL)

    assert (config.cpu_manager_policy, config.memory_manager_policy, config.topology_manager_policy) == (
        "static", "Static", "restricted",
    )  # fmt: skip
    assert config.cpu_manager_reconcile_period == 5
    assert config.reserved_memory[0] == {"numaNode": 0, "limits": {"memory": "1Gi", "hugepages-2Mi": "4Mi"}}
    assert config.swap_behavior == "LimitedSwap"
    shown = document(config)
    assert shown["memorySwap"] == {"swapBehavior": "LimitedSwap"}
    assert shown["reservedMemory"][1] == {"numaNode": 1, "limits": {"memory": "1Gi"}}
    assert shown["cpuCFSQuotaPeriod"] == "0.1s"


def test_cpus_reserved_by_number_are_all_that_is_reserved() -> None:
    system, kube = parse(HEAD + ALL).reservations()

    assert system == {"cpu": "3"}
    assert kube == {"memory": "1Gi", "pid": "100"}


def test_nothing_said_is_upstreams_defaults() -> None:
    empty = 'cpuManagerPolicy: ""\ntopologyManagerScope: ""\nmemoryManagerPolicy: ""\ncpuCFSQuotaPeriod: 0s\nmemorySwap: {}\n'

    assert parse(HEAD + empty) == KubeletConfig()


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        ("cpuManagerPolicy: fixed", 'unknown policy: "fixed"'),
        ("cpuManagerPolicyOptions: {full-pcpus-only: 'true'}", "None policy: received unsupported options"),
        (
            "cpuManagerPolicy: static\ncpuManagerPolicyOptions: {align-by-socket: 'true'}",
            'CPU Manager Policy Alpha-level Options not enabled, but option "align-by-socket" provided',
        ),
        ("memoryManagerPolicy: static", 'unknown policy: "static"'),
        (
            "topologyManagerPolicy: strict",
            'invalid configuration: topologyManagerPolicy (--topology-manager-policy) "strict" must be one of: ["none" '
            '"best-effort" "restricted" "single-numa-node"]',
        ),
        (
            "topologyManagerScope: node",
            'topologyManagerScope (--topology-manager-scope) "node" must be one of: "container", or "pod"',
        ),
        ("topologyManagerPolicyOptions: {near: 'true'}", 'unknown Topology Manager Policy option: "near"'),
        ("cpuCFSQuotaPeriod: 10ms", "requires feature gate CustomCPUCFSQuotaPeriod"),
        (
            "featureGates: {CustomCPUCFSQuotaPeriod: true}\ncpuCFSQuotaPeriod: 2s",
            "must be between 1ms and 1sec, inclusive",
        ),
        ("qosReserved: {memory: 50%}", "requires feature gate QOSReserved"),
        ("featureGates: {QOSReserved: true}\nqosReserved: {cpu: 50%}", 'cannot reserve "cpu" resource'),
        ("featureGates: {QOSReserved: true}\nqosReserved: {memory: 120%}", 'failed to parse percentage "120%"'),
        (
            "memorySwap: {swapBehavior: Unlimited}",
            'invalid configuration: memorySwap.swapBehavior "Unlimited" must be one of: "", "LimitedSwap" or "NoSwap"',
        ),
        ("systemReserved: {gpu: '1'}", '--system-reserved value failed to parse: cannot reserve "gpu" resource'),
        ("kubeReserved: {memory: much}", '--kube-reserved value failed to parse: resource quantity for "memory"'),
        (
            "reservedSystemCPUs: '0'\nkubeReservedCgroup: /kube",
            "can't use reservedSystemCPUs (--reserved-cpus) with systemReservedCgroup",
        ),
        ("reservedSystemCPUs: a-b", "unable to parse reservedSystemCPUs (--reserved-cpus) a-b, error:"),
        (
            "enforceNodeAllocatable: [pods, system-reserved]",
            'systemReservedCgroup (--system-reserved-cgroup) must be specified when "system-reserved" contained in',
        ),
        (
            "enforceNodeAllocatable: [kube-reserved, kube-reserved-compressible]\nkubeReservedCgroup: /kube",
            'both "kube-reserved" and "kube-reserved-compressible" cannot be specified',
        ),
        ("enforceNodeAllocatable: [none, pods]", "may not contain additional enforcements when"),
        ("enforceNodeAllocatable: [all]", 'option "all" specified for enforceNodeAllocatable'),
        ("cgroupsPerQOS: false", "is not supported unless cgroupsPerQOS (--cgroups-per-qos) is set to true"),
        ("reservedMemory: [{numaNode: 0, limits: {cpu: '1'}}]", 'the limit type "cpu" for NUMA node 0 is not supported'),
        ("reservedMemory: [{numaNode: 1, limits: {memory: '0'}}]", "reserved memory may not be zero for NUMA node 1"),
        (
            "reservedMemory: [{limits: {memory: 1Gi}}, {limits: {memory: 1Gi}}]",
            'the reserved memory has a duplicate value for NUMA node 0 and resource "memory"',
        ),
        ("reservedMemory: [{node: 1}]", "reservedMemory: unknown field 'node'"),
    ],
)
def test_what_is_refused(lines: str, wrong: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse(HEAD + lines)
    assert wrong in str(raised.value)


@pytest.mark.parametrize(
    "lines",
    [
        "cgroupsPerQOS: false\nenforceNodeAllocatable: []",
        "enforceNodeAllocatable: [pods, system-reserved-compressible]\nsystemReservedCgroup: /system",
        "featureGates: {QOSReserved: true}\nqosReserved: {memory: 50%}",
        "featureGates: {CustomCPUCFSQuotaPeriod: true}\ncpuCFSQuotaPeriod: 5ms",
        "featureGates: {CPUManagerPolicyAlphaOptions: true}\ncpuManagerPolicy: static\n"
        "cpuManagerPolicyOptions: {align-by-socket: 'true'}",
    ],
)
def test_what_is_taken(lines: str) -> None:
    parse(HEAD + lines)


def _with(*arguments: str) -> KubeletConfig:
    command = click.Command("kubelet", params=list(DAEMON.params))
    return read_config(command.make_context("kubelet", list(arguments)).params)


def test_memory_reserved_by_flags() -> None:
    given = "0:memory=1Gi,hugepages-2Mi=4Mi;1:memory=1Gi"
    first, second = {"memory": "1Gi", "hugepages-2Mi": "4Mi"}, {"memory": "1Gi"}

    assert _with("--reserved-memory", given).reserved_memory == (
        {"numaNode": 0, "limits": first},
        {"numaNode": 1, "limits": second},
    )
    assert len(_with("--reserved-memory", given, "--reserved-memory", "2:memory=5Mi").reserved_memory) == 3
    assert _with().reserved_memory == ()


@pytest.mark.parametrize(
    ("given", "objection"),
    [
        ("memory=1Gi", "the reserved memory has incorrect format, expected numaNodeID:type=quantity"),
        ("x:memory=1Gi", "failed to convert the NUMA node ID"),
        ("0:memory", "the reserved limit has incorrect value"),
        ("0:cpu=1", 'memory type conversion error, unknown type: "cpu"'),
        ("0:memory=lots", "failed to parse the quantatity, expected quantatity, got lots"),
    ],
)
def test_memory_reserved_by_a_flag_that_cannot_be_read(given: str, objection: str) -> None:
    with pytest.raises(click.UsageError, match=re.escape(objection)):
        _with("--reserved-memory", given)
