"""The journey of an object: records of several sources become one ordered list of hops."""

from typing import Any

from cli.tracing.timeline import MICROSECOND, SECOND, Records, kind_of, render, timeline

DEPLOYMENT = {"kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}}
POD = {
    "kind": "Pod",
    "metadata": {"name": "web-1", "namespace": "shop"},
    "status": {
        "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-30T10:00:02Z"},
            {"type": "PodReadyToStartContainers", "status": "True", "lastTransitionTime": "2026-11-30T10:00:02Z"},
        ]
    },
}


def audit(verb: str, resource: str, name: str, when: str, **more: Any) -> dict[str, Any]:
    entry = {
        "verb": verb,
        "user": {"username": "alice"},
        "objectRef": {"resource": resource, "namespace": "shop", "name": name},
        "responseStatus": {"code": 201},
        "requestReceivedTimestamp": f"2026-11-30T10:00:{when}00Z",
        "stageTimestamp": f"2026-11-30T10:00:{when}50Z",
    }
    return {**entry, **more}


def test_hops_come_in_order_of_time_with_coarse_times_last_in_their_second() -> None:
    event = {
        "metadata": {"name": "e", "annotations": {"pybernetes.io/why": "1 of 1 nodes fit"}},
        "regarding": {"kind": "Pod", "name": "web-1"},
        "eventTime": "2026-11-30T10:00:02.900000Z",
        "reason": "Scheduled",
        "note": "Successfully assigned shop/web-1 to n1",
        "reportingController": "default-scheduler",
    }
    records = Records(
        objects=[DEPLOYMENT, POD],
        events=[event],
        audit=[audit("create", "pods", "web-1", "01.0000"), audit("create", "deployments", "web", "00.5000")],
    )

    hops = timeline(records)

    assert [(hop.subject, hop.precision) for hop in hops] == [
        ("deployment/web", MICROSECOND),
        ("pod/web-1", MICROSECOND),
        ("pod/web-1", MICROSECOND),
        ("pod/web-1", SECOND),
        ("pod/web-1", SECOND),
    ]
    assert "Scheduled: Successfully assigned shop/web-1 to n1 (1 of 1 nodes fit)" in hops[2].text
    assert [hop.text for hop in hops[3:]] == ["sandbox and network are up", "Ready"], "causes come before effects in one second"


def test_audit_of_other_objects_and_of_reads_is_left_out() -> None:
    records = Records(
        objects=[DEPLOYMENT],
        audit=[audit("get", "deployments", "web", "00.1000"), audit("create", "deployments", "other", "00.2000")],
    )

    assert timeline(records) == []


def test_a_refused_request_says_so() -> None:
    refused = audit("create", "deployments", "web", "00.1000", responseStatus={"code": 422})

    (hop,) = timeline(Records(objects=[DEPLOYMENT], audit=[refused]))

    assert hop.text.startswith("refused with 422 (")


def test_render_marks_what_is_known_only_to_the_second() -> None:
    text = render(timeline(Records(objects=[POD])))

    assert text.count("10:00:02 (s)") == 2


def test_nothing_recorded_is_said_in_words() -> None:
    assert "nothing is recorded" in render([])


def test_kinds_of_resources() -> None:
    names = {"pods": "pod", "ingresses": "ingress", "networkpolicies": "networkpolicy", "endpointslices": "endpointslice"}

    assert {resource: kind_of(resource) for resource in names} == names
