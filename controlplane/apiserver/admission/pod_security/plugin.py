"""PodSecurity: holds pods to the level their namespace enforces, and warns and audits by the levels it names for that.

Workloads that will make pods are never refused, only warned about; a namespace whose level rises is told which of its
pods would no longer be let in.
"""

from collections.abc import Mapping
from typing import Any

from apimachinery import errors
from controlplane.apiserver.admission.interface import CREATE, UPDATE, Attributes, Listing, Lookup, Object, refuse
from controlplane.apiserver.admission.metrics import AdmissionMetrics
from controlplane.apiserver.admission.pod_security.checks import LEVELS, PRIVILEGED, findings
from controlplane.apiserver.admission.pod_security.policy import PREFIX, Settings, Standard, label_errors, standard

_TEMPLATES = frozenset(
    {
        "podtemplates",
        "replicationcontrollers",
        "replicasets.apps",
        "deployments.apps",
        "statefulsets.apps",
        "daemonsets.apps",
        "jobs.batch",
        "cronjobs.batch",
    }
)
_MOST_PODS = 3000


class PodSecurity:
    name = "PodSecurity"

    def __init__(
        self, lookup: Lookup, listing: Listing, settings: Settings | None = None, metrics: AdmissionMetrics | None = None
    ) -> None:
        self._lookup, self._listing, self._settings = lookup, listing, settings or Settings()
        self._metrics = metrics or AdmissionMetrics()

    def handles(self, attributes: Attributes) -> bool:
        if attributes.obj is None or attributes.operation not in (CREATE, UPDATE):
            return False
        resource = attributes.group_resource
        if resource == "pods":
            return attributes.subresource in ("", "ephemeralcontainers")
        return not attributes.subresource and (resource == "namespaces" or resource in _TEMPLATES)

    async def mutate(self, attributes: Attributes) -> None:
        """Changes nothing."""

    async def validate(self, attributes: Attributes) -> None:
        if attributes.resource == "namespaces":
            await self._namespace(attributes)
            return
        assert attributes.obj is not None
        is_pod = attributes.resource == "pods"
        pod = attributes.obj if is_pod else _template(attributes)
        if pod is None or self._is_exempt(attributes, pod):
            return
        if is_pod and attributes.operation == UPDATE and not _matters(attributes.obj, attributes.old or {}):
            return
        namespace = await self._lookup("namespaces", "", attributes.namespace)
        labels = ((namespace or {}).get("metadata") or {}).get("labels") or {}
        refusal = ""
        if is_pod:
            wanted = standard(labels, "enforce", self._settings)
            attributes.annotations[f"{PREFIX}enforce-policy"] = str(wanted)
            refusal = self._verdict(attributes, pod, wanted, "enforce")
        if text := self._verdict(attributes, pod, standard(labels, "audit", self._settings), "audit"):
            attributes.annotations[f"{PREFIX}audit-violations"] = f"would violate {text}"
        if refusal:  # no warning then: the error says it all
            raise refuse(attributes, f"violates {refusal}")
        if text := self._verdict(attributes, pod, standard(labels, "warn", self._settings), "warn"):
            attributes.warnings.append(f"would violate {text}")

    def _verdict(self, attributes: Attributes, pod: Object, wanted: Standard, mode: str) -> str:
        text = verdict(pod, wanted)
        if mode == "enforce" or text:  # upstream counts what was only looked at when something was found
            decision = "deny" if text else "allow"
            self._metrics.evaluations[decision, wanted.level, wanted.shown, mode, *_where(attributes)] += 1
        return text

    def _is_exempt(self, attributes: Attributes, pod: Object) -> bool:
        runtime_class = (pod.get("spec") or {}).get("runtimeClassName")
        reason = ""
        if attributes.namespace in self._settings.namespaces:
            reason = "namespace"
        elif attributes.user.name in self._settings.users:
            reason = "user"
        elif runtime_class and runtime_class in self._settings.runtime_classes:
            reason = "runtimeClass"
        if reason:
            attributes.annotations[f"{PREFIX}exempt"] = reason
            self._metrics.exemptions[_where(attributes)] += 1
        return bool(reason)

    async def _namespace(self, attributes: Attributes) -> None:
        """Labels must make sense; those that were there already may stay as they are."""
        assert attributes.obj is not None
        new, old = _labels(attributes.obj), _labels(attributes.old)
        found = label_errors(new)
        if found and (attributes.operation == CREATE or not label_errors(old)):
            raise errors.invalid("Namespace", attributes.obj["metadata"].get("name") or attributes.name, found)
        if attributes.operation != UPDATE:
            return
        name = attributes.obj["metadata"]["name"]
        wanted, held = standard(new, "enforce", self._settings), standard(old, "enforce", self._settings)
        if (
            wanted != held
            and wanted.level != PRIVILEGED
            and not _is_laxer(wanted, held)
            and name not in self._settings.namespaces
        ):
            attributes.warnings.extend(await self._existing(name, wanted))

    async def _existing(self, namespace: str, wanted: Standard) -> list[str]:
        pods = await self._listing("pods", namespace)
        by_reason: dict[str, list[str]] = {}
        for pod in pods[:_MOST_PODS]:
            found = findings(pod, wanted.level, wanted.minor)
            if found and (pod.get("spec") or {}).get("runtimeClassName") not in self._settings.runtime_classes:
                by_reason.setdefault(", ".join(each.reason for each in found), []).append(pod["metadata"]["name"])
        if not by_reason:
            return []
        lines = [f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{wanted}"']
        for reason, names in sorted(by_reason.items(), key=lambda item: min(item[1])):
            others = {1: "", 2: " (and 1 other pod)"}.get(len(names), f" (and {len(names) - 1} other pods)")
            lines.append(f"{min(names)}{others}: {reason}")
        return lines


def _where(attributes: Attributes) -> tuple[str, str, str]:
    """As metrics have it."""
    kind = "pod" if attributes.group_resource == "pods" else "controller"
    return attributes.operation.lower(), kind, attributes.subresource


def verdict(pod: Object, wanted: Standard) -> str:
    """``PodSecurity "baseline:latest": what it breaks``, or nothing."""
    found = findings(pod, wanted.level, wanted.minor)
    return f'PodSecurity "{wanted}": {", ".join(map(str, found))}' if found else ""


def _is_laxer(new: Standard, old: Standard) -> bool:
    return new.minor == old.minor and LEVELS.index(new.level) < LEVELS.index(old.level)


def _labels(obj: Object | None) -> Mapping[str, str]:
    labels: Mapping[str, str] = ((obj or {}).get("metadata") or {}).get("labels") or {}
    return labels


def _template(attributes: Attributes) -> Object | None:
    """The pod that a workload would make."""
    obj = attributes.obj or {}
    if attributes.resource == "podtemplates":
        return obj.get("template")
    spec = obj.get("spec") or {}
    if attributes.resource == "cronjobs":
        spec = (spec.get("jobTemplate") or {}).get("spec") or {}
    template: Object | None = spec.get("template")
    return template


def _matters(new: Object, old: Object) -> bool:
    """Of what an update can change in a pod only images, containers added later and these annotations are checked again."""

    def seen(pod: Object) -> Any:
        spec = pod.get("spec") or {}
        parts = ("initContainers", "containers", "ephemeralContainers")
        held = [[(each.get("name"), each.get("image")) for each in spec.get(part) or ()] for part in parts]
        annotations = (pod.get("metadata") or {}).get("annotations") or {}
        return held, {key: value for key, value in annotations.items() if key.startswith("container.apparmor.security.beta.")}

    return bool(seen(new) != seen(old))
