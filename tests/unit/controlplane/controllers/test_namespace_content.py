from datetime import UTC, datetime

from apimachinery.meta import Object, get_condition
from controlplane.controllers.lib.namespace_content import Remains, set_conditions

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_conditions_name_what_remains() -> None:
    remains = Remains()
    remains.count("pods", [{"metadata": {"finalizers": ["a/b"], "deletionGracePeriodSeconds": 30}}, {"metadata": {}}])
    remains.count("secrets", [])
    namespace: Object = {}
    assert set_conditions(namespace, remains, NOW)
    assert not remains.empty
    assert remains.grace_seconds == 30
    content, held = (get_condition(namespace, f"Namespace{kind}Remaining") for kind in ("Content", "Finalizers"))
    assert content is not None
    assert held is not None
    assert (content["status"], content["message"]) == ("True", "Some resources are remaining: pods has 2 resource instances")
    assert held["message"] == "Some content in the namespace has finalizers remaining: a/b in 1 resource instances"


def test_an_empty_namespace_is_well() -> None:
    namespace: Object = {}
    set_conditions(namespace, Remains(), NOW)
    assert {each["status"] for each in namespace["status"]["conditions"]} == {"False"}
