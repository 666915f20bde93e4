"""What the two plugins are made from: where their webhooks come from, and how servers are reached."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from component.errors import OperatorError
from controlplane.apiserver.admission.interface import Lookup
from controlplane.apiserver.admission.policy.source import Held
from controlplane.apiserver.admission.webhook.calls import MUTATING, VALIDATING, Caller
from controlplane.apiserver.admission.webhook.hooks import Source
from controlplane.apiserver.admission.webhook.metrics import WebhookMetrics
from controlplane.apiserver.admission.webhook.mutating import MutatingAdmissionWebhook
from controlplane.apiserver.admission.webhook.validating import ValidatingAdmissionWebhook
from controlplane.apiserver.authorization.interface import Authorizer
from controlplane.apiserver.service_client import HookClients, Users

_GROUP = "admissionregistration.k8s.io"
_KINDS = (None, "WebhookAdmission", "WebhookAdmissionConfiguration")


@dataclass(frozen=True, slots=True)
class Webhooks:
    """``held`` gives caches by ``resource.group``; ``open`` makes clients, which somebody closes in the end."""

    held: Callable[[str], Held]
    open: Callable[[Users], HookClients]
    metrics: WebhookMetrics = field(default_factory=WebhookMetrics)


def mutating(tools: Webhooks, config: Mapping[str, Any], lookup: Lookup, authorizer: Authorizer) -> MutatingAdmissionWebhook:
    """Raises OperatorError for a configuration that cannot be used."""
    clients = tools.open(users_from("MutatingAdmissionWebhook", config))
    source = Source(tools.held(f"mutatingwebhookconfigurations.{_GROUP}"))
    return MutatingAdmissionWebhook(source, Caller(MUTATING, clients, lookup, authorizer, tools.metrics))


def validating(tools: Webhooks, config: Mapping[str, Any], lookup: Lookup, authorizer: Authorizer) -> ValidatingAdmissionWebhook:
    """Raises OperatorError for a configuration that cannot be used."""
    clients = tools.open(users_from("ValidatingAdmissionWebhook", config))
    source = Source(tools.held(f"validatingwebhookconfigurations.{_GROUP}"))
    return ValidatingAdmissionWebhook(source, Caller(VALIDATING, clients, lookup, authorizer, tools.metrics))


def users_from(plugin: str, config: Mapping[str, Any]) -> Users:
    """Who we are towards webhooks: the ``kubeConfigFile`` of a WebhookAdmissionConfiguration. Raises OperatorError."""
    if config.get("kind") not in _KINDS:
        raise OperatorError(f"{plugin}: kind must be WebhookAdmissionConfiguration, not {config['kind']}")
    file = config.get("kubeConfigFile")
    if not file:
        return Users()
    if not Path(file).is_absolute():
        raise OperatorError(f"{plugin}: kubeConfigFile must be an absolute file path; got {file!r}")
    return Users.load(Path(file))
