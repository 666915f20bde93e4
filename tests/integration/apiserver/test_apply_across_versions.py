"""Managers who wrote one object in different versions: each is asked in the words of the version it wrote.

As upstream's structured merge: conflicts, transfers and removals are found after converting to each manager's version.
"""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from apimachinery.patch import fieldset
from tests.support.apiserver import Answer, TestServer, running_apiserver

Object = dict[str, Any]
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
TARGET = {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}


def hpa(version: str) -> str:
    return f"/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers/h"


def cpu(percent: int) -> Object:
    return {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}}


async def apply(server: TestServer, version: str, manager: str, spec: Object, more: str = "") -> Answer:
    body = {"apiVersion": f"autoscaling/{version}", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"}, "spec": spec}
    return await server.request("PATCH", f"{hpa(version)}?fieldManager={manager}{more}", body, content_type=APPLY)


async def owners(server: TestServer, path: str) -> dict[tuple[str, str], set[str]]:
    """(manager, version) to the paths it holds."""
    entries = (await server.request("GET", path)).json["metadata"]["managedFields"]
    return {(each["manager"], each["apiVersion"]): set(fieldset.paths(each["fieldsV1"])) for each in entries}


@pytest.fixture
async def applied(server: TestServer) -> TestServer:
    """An autoscaler that ``one`` applied as v2."""
    made = await apply(server, "v2", "one", {"scaleTargetRef": TARGET, "maxReplicas": 5, "metrics": [cpu(50)]})
    assert made.status == 201, made.body
    return server


async def test_a_conflict_is_seen_in_the_other_managers_words(applied: TestServer) -> None:
    refused = await apply(applied, "v1", "two", {"targetCPUUtilizationPercentage": 80})
    assert refused.status == 409
    assert [cause["field"] for cause in refused.json["details"]["causes"]] == [".spec.metrics"]
    assert 'conflict with "one"' in refused.json["message"]


async def test_the_same_value_in_other_words_is_shared(applied: TestServer) -> None:
    shared = await apply(applied, "v1", "two", {"targetCPUUtilizationPercentage": 50})
    assert shared.status == 200, shared.body
    found = await owners(applied, hpa("v2"))
    assert ".spec.metrics" in found["one", "autoscaling/v2"]
    assert found["two", "autoscaling/v1"] == {".spec.targetCPUUtilizationPercentage"}


async def test_force_takes_the_field_from_its_holder(applied: TestServer) -> None:
    assert (await apply(applied, "v1", "two", {"targetCPUUtilizationPercentage": 80}, "&force=true")).status == 200
    found = await owners(applied, hpa("v2"))
    assert ".spec.metrics" not in found["one", "autoscaling/v2"]
    assert ".spec.maxReplicas" in found["one", "autoscaling/v2"]
    assert (await applied.request("GET", hpa("v2"))).json["spec"]["metrics"] == [cpu(80)]


async def test_an_update_in_another_version_takes_fields_too(applied: TestServer) -> None:
    body = {"spec": {"targetCPUUtilizationPercentage": 70}}
    await applied.request("PATCH", f"{hpa('v1')}?fieldManager=hand", body, content_type=MERGE)
    found = await owners(applied, hpa("v2"))
    assert ".spec.metrics" not in found["one", "autoscaling/v2"]
    assert ".spec.targetCPUUtilizationPercentage" in found["hand", "autoscaling/v1"]


async def test_what_is_no_longer_stated_goes_whatever_the_version(applied: TestServer) -> None:
    """``one`` goes on in v1 and leaves out what it stated in v2 as a metric; the server's default takes its place."""
    moved = await apply(applied, "v1", "one", {"scaleTargetRef": TARGET, "maxReplicas": 5})
    assert moved.status == 200, moved.body
    assert (await applied.request("GET", hpa("v2"))).json["spec"]["metrics"] == [cpu(80)]
    found = await owners(applied, hpa("v1"))
    assert set(found) == {("one", "autoscaling/v1")}


async def test_what_somebody_else_holds_in_another_version_stays(applied: TestServer) -> None:
    assert (await apply(applied, "v1", "two", {"targetCPUUtilizationPercentage": 50})).status == 200
    left = await apply(applied, "v2", "one", {"scaleTargetRef": TARGET, "maxReplicas": 5})
    assert left.status == 200, left.body
    assert left.json["spec"]["metrics"] == [cpu(50)]
    assert ".spec.metrics" not in (await owners(applied, hpa("v2")))["one", "autoscaling/v2"]


async def test_applying_again_in_either_version_changes_nothing(applied: TestServer) -> None:
    await apply(applied, "v1", "two", {"targetCPUUtilizationPercentage": 50})
    before = (await applied.request("GET", hpa("v2"))).json["metadata"]["resourceVersion"]
    await apply(applied, "v1", "two", {"targetCPUUtilizationPercentage": 50})
    await apply(applied, "v2", "one", {"scaleTargetRef": TARGET, "maxReplicas": 5, "metrics": [cpu(50)]})
    assert (await applied.request("GET", hpa("v2"))).json["metadata"]["resourceVersion"] == before


@pytest.fixture
async def everything() -> AsyncIterator[TestServer]:
    async with running_apiserver(runtime_config={"api/all": "true"}) as started:
        yield started


async def test_lists_whose_elements_look_different_are_compared_where_they_are_alike(everything: TestServer) -> None:
    """A device request is flat in v1beta1 and has an inner struct in v1."""

    def path(version: str) -> str:
        return f"/apis/resource.k8s.io/{version}/namespaces/default/resourceclaims/c"

    def claim(version: str, request: Object) -> Object:
        body: Object = {"apiVersion": f"resource.k8s.io/{version}", "kind": "ResourceClaim", "metadata": {"name": "c"}}
        return {**body, "spec": {"devices": {"requests": [{"name": "r", **request}]}}}

    made = claim("v1", {"exactly": {"deviceClassName": "a.example"}})
    assert (await everything.request("PATCH", f"{path('v1')}?fieldManager=one", made, content_type=APPLY)).status == 201
    defaulted: Object = {"allocationMode": "ExactCount", "count": 1}  # the list is atomic: all of it, or another value
    same = claim("v1beta1", {"deviceClassName": "a.example", **defaulted})
    shared = await everything.request("PATCH", f"{path('v1beta1')}?fieldManager=two", same, content_type=APPLY)
    assert shared.status == 200, shared.body
    other = claim("v1beta1", {"deviceClassName": "b.example", **defaulted})
    refused = await everything.request("PATCH", f"{path('v1beta1')}?fieldManager=two", other, content_type=APPLY)
    assert refused.status == 409, refused.body
    assert "conflict with" in refused.json["message"]
