"""Priority and fairness in a real server: who is classified where, who waits, who is turned away, and what is told about it."""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from controlplane.apiserver.assembly import server as assembly
from tests.support.apiserver import TestServer, running_apiserver

GROUP = "/apis/flowcontrol.apiserver.k8s.io/v1"
SCHEMAS, LEVELS = f"{GROUP}/flowschemas", f"{GROUP}/prioritylevelconfigurations"
MAPS = "/api/v1/namespaces/default/configmaps"
MINE, ALICE = "viewer-token", "nobody-special"  # a user without rights, classified before anybody asks what he may


async def uid(server: TestServer, path: str) -> str:
    return str((await server.request("GET", path)).json["metadata"]["uid"])


async def named(server: TestServer, method: str, path: str, token: str) -> tuple[str, str]:
    """Schema and level of a request, by the headers of its answer."""
    answer = await server.request(method, path, token=token)
    names = []
    for where, header in ((SCHEMAS, "X-Kubernetes-PF-FlowSchema-UID"), (LEVELS, "X-Kubernetes-PF-PriorityLevel-UID")):
        items = (await server.request("GET", where)).json["items"]
        names.append(next(one["metadata"]["name"] for one in items if one["metadata"]["uid"] == answer.headers[header]))
    return names[0], names[1]


async def test_answers_name_their_flow_schema_and_level_refused_ones_too(server: TestServer) -> None:
    assert await named(server, "GET", MAPS, server.admin_token) == ("exempt", "exempt")
    assert await named(server, "GET", "/readyz", MINE) == ("probes", "exempt")
    assert await named(server, "GET", MAPS, MINE) == ("global-default", "global-default")  # a 403
    assert await named(server, "GET", "/api/v1/nodes/node-1", "node-token") == ("system-node-high", "node-high")
    assert await named(server, "GET", MAPS, "scheduler-token") == ("kube-scheduler", "workload-high")


def level(name: str, shares: int, *, queues: int = 0, length: int = 50) -> dict[str, Any]:
    response: dict[str, Any] = {"type": "Reject"}
    if queues:
        response = {"type": "Queue", "queuing": {"queues": queues, "handSize": 1, "queueLengthLimit": length}}
    limited = {"nominalConcurrencyShares": shares, "limitResponse": response, "borrowingLimitPercent": 0}
    return {"metadata": {"name": name}, "spec": {"type": "Limited", "limited": limited}}


def schema(name: str, to: str, user: str = ALICE, precedence: int = 300) -> dict[str, Any]:
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
    rule = {"subjects": [{"kind": "User", "user": {"name": user}}], "resourceRules": [everything]}
    spec = {"priorityLevelConfiguration": {"name": to}, "matchingPrecedence": precedence, "rules": [rule]}
    return {"metadata": {"name": name}, "spec": spec}


async def dangling(server: TestServer, name: str, wanted: str) -> dict[str, Any]:
    for _ in range(200):
        found = (await server.request("GET", f"{SCHEMAS}/{name}")).json
        for condition in found.get("status", {}).get("conditions", ()):
            if condition["type"] == "Dangling" and condition["status"] == wanted:
                return dict(condition)
        await asyncio.sleep(0.01)
    pytest.fail(f"Dangling does not become {wanted}")


async def test_new_objects_count_at_once_and_a_schema_says_when_its_level_is_missing(server: TestServer) -> None:
    assert (await server.request("POST", SCHEMAS, schema("mine", "mine"))).status == 201
    condition = await dangling(server, "mine", "True")
    assert condition["reason"] == "NotFound"
    text = 'This FlowSchema references the PriorityLevelConfiguration object named "mine" but there is no such object'
    assert condition["message"] == text
    assert await named(server, "GET", MAPS, MINE) == ("global-default", "global-default")
    assert (await server.request("POST", LEVELS, level("mine", 10))).status == 201
    assert (await dangling(server, "mine", "False"))["reason"] == "Found"
    assert await named(server, "GET", MAPS, MINE) == ("mine", "mine")
    await server.request("DELETE", f"{LEVELS}/mine")
    await dangling(server, "mine", "True")
    assert await named(server, "GET", MAPS, MINE) == ("global-default", "global-default")
    await server.request("DELETE", f"{SCHEMAS}/mine")


BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
WRITES = {  # the manager itself writes next to nothing: its controllers have accounts of their own
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "writes"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:kube-controller-manager"}],
}


@contextlib.asynccontextmanager
async def one_seat(**queuing: int) -> AsyncIterator[TestServer]:
    """A server in which the controller manager has one seat."""
    async with running_apiserver(serving={"max_reads": 100, "max_writes": 0, "request_timeout": 8.0}) as server:
        await server.request("POST", LEVELS, level("narrow", 1, **queuing))
        await server.request("POST", SCHEMAS, schema("narrow", "narrow", "system:kube-controller-manager", 50))
        await server.request("POST", BINDINGS, WRITES)
        await dangling(server, "narrow", "False")
        yield server


class Held:
    """A write whose body does not come to an end until it is let."""

    def __init__(self, server: TestServer, name: str) -> None:
        self.gate = asyncio.Event()
        body = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}).encode()

        async def slowly() -> AsyncIterator[bytes]:
            yield body[:10]
            await self.gate.wait()
            yield body[10:]

        headers = {"Authorization": "Bearer controller-manager-token", "Content-Type": "application/json"}
        self.request = asyncio.ensure_future(
            server.session.post(server.url + MAPS, data=slowly(), headers=headers, ssl=server.tls)
        )

    async def release(self) -> int:
        self.gate.set()
        return (await self.request).status


async def executing(server: TestServer, count: int) -> None:
    for _ in range(200):
        table = (await server.request("GET", "/debug/api_priority_and_fairness/dump_priority_levels")).body.decode()
        if re.search(rf"^narrow, +\d+, +\w+, +false, +\d+, +{count},", table, re.MULTILINE):
            return
        await asyncio.sleep(0.01)
    pytest.fail(table)


async def test_a_level_that_does_not_queue_refuses_what_is_too_much() -> None:
    async with one_seat() as server:
        held = Held(server, "first")
        await executing(server, 1)
        refused = await server.request("DELETE", f"{MAPS}/x", token="controller-manager-token")
        assert (refused.status, refused.body) == (429, b"Too many requests, please try again later.\n")
        assert refused.headers["Retry-After"] == "1"
        assert refused.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert refused.headers["X-Kubernetes-PF-PriorityLevel-UID"] == await uid(server, f"{LEVELS}/narrow")
        assert refused.headers["Audit-Id"]
        assert (await server.request("DELETE", f"{MAPS}/x", token="scheduler-token")).status != 429  # others have seats
        assert await held.release() == 201
        assert (await server.request("DELETE", f"{MAPS}/first", token="controller-manager-token")).status == 200
        metrics = (await server.request("GET", "/metrics")).body.decode()
        reason = 'flow_schema="narrow",priority_level="narrow",reason="concurrency-limit"'
        labels = {line for line in metrics.splitlines() if line.startswith("apiserver_flowcontrol_rejected_requests_total{")}
        assert any(set(reason.split(",")) <= set(re.findall(r'\w+="[^"]*"', line)) and line.endswith(" 1.0") for line in labels)


async def test_a_queue_holds_what_is_too_much_for_a_while() -> None:
    async with one_seat(queues=1, length=2) as server:
        held = Held(server, "first")
        await executing(server, 1)
        waiting = [asyncio.ensure_future(server.request("GET", MAPS, token="controller-manager-token")) for _ in range(2)]
        for _ in range(200):
            table = (await server.request("GET", "/debug/api_priority_and_fairness/dump_requests?includeRequestDetails=1")).body
            if table.count(b"system:kube-controller-manager") == 2:
                break
            await asyncio.sleep(0.01)
        rows = [re.split(r",\s*", line) for line in table.decode().splitlines()]
        assert rows[0][:5] == ["PriorityLevelName", "FlowSchemaName", "QueueIndex", "RequestIndexInQueue", "FlowDistingsher"]
        assert [row[:4] for row in rows if row[0] == "narrow"] == [["narrow", "narrow", "0", "0"], ["narrow", "narrow", "0", "1"]]
        assert next(row for row in rows if row[0] == "narrow")[10:13] == ["system:kube-controller-manager", "list", MAPS]
        assert (await server.request("GET", MAPS, token="controller-manager-token")).status == 429  # the queue is full
        waiting[1].cancel()  # its client goes away: the place is free
        for _ in range(200):
            third = asyncio.ensure_future(server.request("GET", MAPS, token="controller-manager-token"))
            done, _ = await asyncio.wait([third], timeout=0.05)
            if not done:
                break
        assert await held.release() == 201
        assert [(await one).status for one in (waiting[0], third)] == [200, 200]


async def test_who_waits_longer_than_a_quarter_of_his_time_is_turned_away() -> None:
    async with one_seat(queues=1, length=10) as server:
        held = Held(server, "first")
        await executing(server, 1)
        began = asyncio.get_running_loop().time()
        refused = await server.request("GET", f"{MAPS}?timeout=1s", token="controller-manager-token")
        assert refused.status == 429
        assert 0.2 <= asyncio.get_running_loop().time() - began < 1.5
        dump = (await server.request("GET", "/debug/api_priority_and_fairness/dump_priority_levels")).body.decode()
        columns, row = (re.split(r",\s*", line) for line in dump.splitlines() if re.match("Prio|narrow", line))
        assert dict(zip(columns, row, strict=True))["TimedoutRequests"] == "1"
        assert await held.release() == 201


async def test_a_watch_has_a_seat_only_until_it_has_begun() -> None:
    async with one_seat() as server:
        headers = {"Authorization": "Bearer controller-manager-token"}
        watches = []
        for _ in range(5):
            for _ in range(200):
                watch = await server.session.get(f"{server.url}{MAPS}?watch=1", headers=headers, ssl=server.tls)
                if watch.status != 429:
                    break
                watch.close()  # the one before has not been streamed yet
                await asyncio.sleep(0.01)
            assert watch.status == 200
            watches.append(watch)
        assert (await server.request("GET", MAPS, token="controller-manager-token")).status == 200
        for watch in watches:
            watch.close()


async def test_the_clusters_own_objects_come_back_and_people_may_take_over_the_suggested_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(assembly, "MEND_SECONDS", 0.3)
    async with running_apiserver() as server:
        stolen = (await server.request("GET", f"{LEVELS}/workload-low")).json
        assert stolen["metadata"]["annotations"]["apf.kubernetes.io/autoupdate-spec"] == "true"
        stolen["metadata"]["annotations"]["apf.kubernetes.io/autoupdate-spec"] = "false"
        stolen["spec"]["limited"]["nominalConcurrencyShares"] = 7
        assert (await server.request("PUT", f"{LEVELS}/workload-low", stolen)).status == 200
        assert (await server.request("DELETE", f"{SCHEMAS}/catch-all")).status == 200
        for _ in range(1500):
            if (await server.request("GET", f"{SCHEMAS}/catch-all")).status == 200:
                break
            await asyncio.sleep(0.01)
        else:
            pytest.fail("catch-all does not come back")
        kept = (await server.request("GET", f"{LEVELS}/workload-low")).json
        assert kept["spec"]["limited"]["nominalConcurrencyShares"] == 7


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("soon", 'time: invalid duration "soon"'),
        ("10", 'time: missing unit in duration "10"'),
        ("10y", 'time: unknown unit "y" in duration "10y"'),
    ],
)
async def test_a_timeout_that_is_none_is_refused_before_anything_else(server: TestServer, text: str, words: str) -> None:
    answer = await server.request("GET", f"{MAPS}?timeout={text}", token=None)
    assert (answer.status, answer.json["message"]) == (400, f"invalid timeout specified in the request URL - {words}")
    assert answer.headers["Audit-Id"]


async def test_a_timeout_of_ones_own_ends_a_request(server: TestServer) -> None:
    """It is the body that does not come."""

    async def never() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(30)

    headers = {"Authorization": f"Bearer {server.admin_token}", "Content-Type": "application/json"}
    async with server.session.post(f"{server.url}{MAPS}?timeout=200ms", data=never(), headers=headers, ssl=server.tls) as answer:
        assert answer.status == 504
        assert (await answer.json())["message"] == "Timeout: request did not complete within the allotted timeout"


async def test_metrics_have_upstreams_names(server: TestServer) -> None:
    await server.request("GET", MAPS, token=MINE)
    await server.request("POST", MAPS, {"metadata": {"name": "counted"}})
    text = (await server.request("GET", "/metrics")).body.decode()
    found = set(re.findall(r"^# TYPE apiserver_flowcontrol_(\w+) ", text, re.MULTILINE))
    assert found == {
        "current_executing_requests",
        "current_executing_seats",
        "current_inqueue_requests",
        "current_inqueue_seats",
        "current_limit_seats",
        "current_r",
        "demand_seats",
        "demand_seats_average",
        "demand_seats_high_watermark",
        "demand_seats_smoothed",
        "demand_seats_stdev",
        "dispatch_r",
        "dispatched_requests_total",
        "latest_s",
        "lower_limit_seats",
        "next_discounted_s_bounds",
        "next_s_bounds",
        "nominal_limit_seats",
        "priority_level_request_utilization",
        "priority_level_seat_utilization",
        "rejected_requests_total",
        "request_dispatch_no_accommodation_total",
        "request_execution_seconds",
        "request_queue_length_after_enqueue",
        "request_wait_duration_seconds",
        "seat_fair_frac",
        "target_seats",
        "upper_limit_seats",
        "watch_count_samples",
        "work_estimated_seats",
    }
    line = next(
        line for line in text.splitlines() if line.startswith("apiserver_flowcontrol_nominal_limit_seats") and "system" in line
    )
    assert line.endswith(" 74.0")
    seen = re.search(
        r'flowcontrol_dispatched_requests_total{flow_schema="global-default",priority_level="global-default"} (\S+)', text
    )
    assert seen is not None
    assert float(seen[1]) >= 1
