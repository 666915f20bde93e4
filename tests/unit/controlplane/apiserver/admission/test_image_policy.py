"""ImagePolicyWebhook: what is asked, what the answer does, and what silence means."""

from typing import Any

import pytest

from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersionKind
from component.errors import OperatorError
from controlplane.apiserver.admission.interface import CREATE, UPDATE, Attributes
from controlplane.apiserver.admission.plugins.image_policy_webhook import ImagePolicy, ImagePolicyWebhook, policy_from
from controlplane.apiserver.authentication.interface import UserInfo

Object = dict[str, Any]


class Reviewer:
    def __init__(self, **status: Any) -> None:
        self.status: Object | None = status
        self.asked: list[Object] = []

    async def __call__(self, review: Object) -> Object:
        self.asked.append(review["spec"])
        if self.status is None:
            raise ConnectionError("nobody there")
        return self.status


def pod(*images: str, annotations: dict[str, str] | None = None, later: tuple[str, ...] = ()) -> Object:
    spec: Object = {"containers": [{"name": f"c{number}", "image": image} for number, image in enumerate(images)]}
    if later:
        spec["ephemeralContainers"] = [{"name": f"e{number}", "image": image} for number, image in enumerate(later)]
    return {"metadata": {"name": "p", "annotations": annotations or {}}, "spec": spec}


def written(obj: Object, old: Object | None = None, subresource: str = "") -> Attributes:
    operation = UPDATE if old is not None else CREATE
    return Attributes(operation, GroupVersionKind("", "v1", "Pod"), "pods", subresource, "team", "p", obj, old, UserInfo("jane"))


async def test_images_and_the_annotations_meant_for_it_are_asked_about() -> None:
    reviewer = Reviewer(allowed=True, auditAnnotations={"checked": "yes"})
    plugin = ImagePolicyWebhook(ImagePolicy("f"), reviewer)
    asked = written(pod("a:1", "b:2", annotations={"break.image-policy.k8s.io/glass": "now", "other": "x"}))
    assert plugin.handles(asked)
    await plugin.validate(asked)
    assert reviewer.asked == [
        {
            "containers": [{"image": "a:1"}, {"image": "b:2"}],
            "annotations": {"break.image-policy.k8s.io/glass": "now"},
            "namespace": "team",
        }
    ]
    assert asked.annotations == {"imagepolicywebhook.image-policy.k8s.io/checked": "yes"}


async def test_a_refusal_says_why() -> None:
    plugin = ImagePolicyWebhook(ImagePolicy("f"), Reviewer(allowed=False, reason="unsigned"))
    with pytest.raises(StatusError, match="image policy webhook backend denied one or more images: unsigned") as caught:
        await plugin.validate(written(pod("a:1")))
    assert caught.value.code == 403


async def test_of_containers_added_later_only_the_new_images_are_asked_about() -> None:
    reviewer = Reviewer(allowed=False)
    plugin = ImagePolicyWebhook(ImagePolicy("f"), reviewer)
    old, new = pod("a:1", later=("d:1",)), pod("a:1", later=("d:1", "evil:1"))
    added = written(new, old, "ephemeralcontainers")
    assert plugin.handles(added)
    with pytest.raises(StatusError):
        await plugin.validate(added)
    assert reviewer.asked[0]["containers"] == [{"image": "evil:1"}]
    await plugin.validate(written(old, old, "ephemeralcontainers"))
    assert len(reviewer.asked) == 1
    assert not plugin.handles(written(new, old, "status"))


@pytest.mark.parametrize("open_", [True, False])
async def test_what_silence_means(open_: bool) -> None:
    reviewer = Reviewer()
    reviewer.status = None
    plugin = ImagePolicyWebhook(ImagePolicy("f", default_allow=open_), reviewer)
    asked = written(pod("a:1"))
    if open_:
        await plugin.validate(asked)
        assert asked.annotations == {"imagepolicywebhook.image-policy.k8s.io/failed-open": "true"}
    else:
        with pytest.raises(StatusError):
            await plugin.validate(asked)


async def test_answers_count_for_their_time() -> None:
    now, reviewer = [0.0], Reviewer(allowed=True)
    plugin = ImagePolicyWebhook(ImagePolicy("f", allow_seconds=10), reviewer, lambda: now[0])
    for moment, asked in ((0.0, 1), (9.0, 1), (11.0, 2)):
        now[0] = moment
        await plugin.validate(written(pod("a:1")))
        assert len(reviewer.asked) == asked


def test_the_configuration() -> None:
    found = policy_from({"imagePolicy": {"kubeConfigFile": "/f", "allowTTL": 50, "denyTTL": -1, "defaultAllow": True}})
    assert found == ImagePolicy("/f", 50.0, 0.0, True)
    with pytest.raises(OperatorError, match="kubeConfigFile"):
        policy_from({})
    with pytest.raises(OperatorError, match="allowTTL must be between"):
        policy_from({"imagePolicy": {"kubeConfigFile": "/f", "allowTTL": 9999}})
