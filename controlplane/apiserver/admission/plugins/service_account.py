"""ServiceAccount: gives every pod an account, and containers its token, the CA and the namespace in one projected volume."""

import random
from collections.abc import Iterator
from typing import Any

from apimachinery import names
from controlplane.apiserver.admission.interface import CREATE, UPDATE, Attributes, Lookup, refuse

MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
TOKEN_SECONDS = 3607  # an odd number by which the kubelet and others recognise tokens that were not asked for
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
_PREFIX = "kube-api-access-"
_GROUPS = ("containers", "initContainers")
_LIMITED = "kubernetes.io/enforce-mountable-secrets"
_KINDS = {"initContainers": "init container", "containers": "container", "ephemeralContainers": "ephemeral container"}


class ServiceAccount:
    name = "ServiceAccount"

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    def handles(self, attributes: Attributes) -> bool:
        if attributes.resource != "pods" or attributes.kind.group:
            return False
        if attributes.subresource == "ephemeralcontainers":
            return attributes.operation == UPDATE
        return not attributes.subresource and attributes.operation == CREATE

    async def mutate(self, attributes: Attributes) -> None:
        assert attributes.obj is not None
        pod = attributes.obj
        spec = pod.get("spec")
        if not isinstance(spec, dict) or attributes.operation == UPDATE:
            return
        if MIRROR_ANNOTATION in (pod["metadata"].get("annotations") or {}):
            self._check_mirror(attributes, spec)
            return
        name = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        account = await self._lookup("serviceaccounts", attributes.namespace, name)
        if account is None:
            why = f'error looking up service account {attributes.namespace}/{name}: serviceaccount "{name}" not found'
            raise refuse(attributes, why)
        if wants_token(account, spec):
            mount_token(spec)
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [{"name": one.get("name", "")} for one in account["imagePullSecrets"]]

    def _check_mirror(self, attributes: Attributes, spec: dict[str, Any]) -> None:
        if spec.get("serviceAccountName"):
            raise refuse(attributes, "a mirror pod may not reference service accounts")

    async def validate(self, attributes: Attributes) -> None:
        """An account that is limited to its own secrets lends pods no others, in whatever container they ask for them."""
        pod = attributes.obj or {}
        spec = pod.get("spec") or {}
        if MIRROR_ANNOTATION in (pod["metadata"].get("annotations") or {}):
            return
        account = await self._lookup("serviceaccounts", attributes.namespace, spec.get("serviceAccountName") or "default")
        if account is None or (account["metadata"].get("annotations") or {}).get(_LIMITED) != "true":
            return
        own = {one.get("name", "") for one in account.get("secrets") or []}
        refers = f"because service account {account['metadata']['name']} does not reference that"
        for name, where in secrets_used(spec):
            if name not in own:
                raise refuse(attributes, f"{where} is not allowed {refers} secret")
        pulling = {one.get("name", "") for one in account.get("imagePullSecrets") or []}
        for position, one in enumerate(spec.get("imagePullSecrets") or []):
            if one.get("name", "") not in pulling:
                where = f'imagePullSecrets[{position}].name="{one.get("name", "")}"'
                raise refuse(attributes, f"{where} is not allowed {refers} imagePullSecret")


def secrets_used(spec: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The secrets that volumes and containers of every kind refer to, and the words for the place."""
    for volume in spec.get("volumes") or []:
        sources = [volume, *((volume.get("projected") or {}).get("sources") or [])]
        for source in sources:
            secret = source.get("secret") or {}
            name = secret.get("secretName") or secret.get("name")
            if name:
                yield name, f'volume with secret.secretName="{name}"'
    for group, kind in _KINDS.items():
        for container in spec.get(group) or []:
            for variable in container.get("env") or []:
                name = ((variable.get("valueFrom") or {}).get("secretKeyRef") or {}).get("name")
                if name:
                    place = f"{kind} {container.get('name', '')} with envVar {variable.get('name', '')}"
                    yield name, f'{place} referencing secret.secretName="{name}"'
            for source in container.get("envFrom") or []:
                name = (source.get("secretRef") or {}).get("name")
                if name:
                    yield name, f'{kind} {container.get("name", "")} with envFrom referencing secret.secretName="{name}"'


def wants_token(account: dict[str, Any], spec: dict[str, Any]) -> bool:
    """The pod's own wish counts before the account's; yes without either."""
    for holder in (spec, account):
        if holder.get("automountServiceAccountToken") is not None:
            return bool(holder["automountServiceAccountToken"])
    return True


def mount_token(spec: dict[str, Any]) -> None:
    """Add the projected volume and its mounts, to containers that have nothing at the path already."""
    volumes = spec.get("volumes") or []
    existing = next((one["name"] for one in volumes if str(one.get("name", "")).startswith(_PREFIX) and "projected" in one), None)
    name = existing or _PREFIX + names.random_suffix(random.choice)
    used = False
    for group in _GROUPS:
        for container in spec.get(group) or []:
            mounts = container.get("volumeMounts") or []
            if any(mount.get("mountPath") == MOUNT_PATH for mount in mounts):
                continue
            container["volumeMounts"] = [*mounts, {"mountPath": MOUNT_PATH, "name": name, "readOnly": True}]
            used = True
    if used and not existing:
        spec["volumes"] = [*volumes, token_volume(name)]


def token_volume(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "projected": {
            "defaultMode": 420,
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
                {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
                {
                    "downwardAPI": {
                        "items": [{"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}, "path": "namespace"}],
                    }
                },
            ],
        },
    }
