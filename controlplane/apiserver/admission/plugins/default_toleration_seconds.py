"""DefaultTolerationSeconds: pods stay 300 seconds on a node that is not ready or unreachable, unless they say otherwise."""

from controlplane.apiserver.admission.interface import CREATE, UPDATE, Attributes

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"


class DefaultTolerationSeconds:
    name = "DefaultTolerationSeconds"

    def __init__(self, seconds: int = 300) -> None:
        self._seconds = seconds

    def handles(self, attributes: Attributes) -> bool:
        return attributes.resource == "pods" and not attributes.subresource and attributes.operation in (CREATE, UPDATE)

    async def mutate(self, attributes: Attributes) -> None:
        assert attributes.obj is not None
        spec = attributes.obj.get("spec")
        if not isinstance(spec, dict):
            return
        tolerations = list(spec.get("tolerations") or [])
        missing = [key for key in (NOT_READY, UNREACHABLE) if not any(_covers(one, key) for one in tolerations)]
        tolerations += [
            {"effect": "NoExecute", "key": key, "operator": "Exists", "tolerationSeconds": self._seconds} for key in missing
        ]
        if missing:
            spec["tolerations"] = tolerations

    async def validate(self, attributes: Attributes) -> None:
        """Only adds; refuses nothing."""


def _covers(toleration: dict[str, object], taint: str) -> bool:
    key, effect = toleration.get("key") or "", toleration.get("effect") or ""
    return key in ("", taint) and effect in ("", "NoExecute")
