"""POST ``serviceaccounts/NAME/token`` (TokenRequest): a signed token for an account, bound to a pod, secret or node if asked."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from apimachinery import errors, fieldpath
from apimachinery.gvk import GroupVersionKind
from apimachinery.times import format_time
from controlplane.apiserver.admission.interface import CREATE, Lookup
from controlplane.apiserver.authentication.token_issuer import TokenIssuer
from controlplane.apiserver.endpoints.body import match_namespace, read_object
from controlplane.apiserver.endpoints.options import write_options
from controlplane.apiserver.endpoints.respond import value_reply
from controlplane.apiserver.endpoints.scope import Scope
from controlplane.apiserver.wire.call import Call
from controlplane.apiserver.wire.reply import Reply

Object = dict[str, Any]

TOKEN_REQUEST = GroupVersionKind("authentication.k8s.io", "v1", "TokenRequest")
DEFAULT_SECONDS, MIN_SECONDS, MAX_SECONDS = 3600, 600, 1 << 32
_INJECTED_SECONDS = 3607  # what the ServiceAccount admission plugin asks for
_EXTENDED_SECONDS = 365 * 24 * 3600  # clients that never reload their token get this long, as upstream extends it


async def create_token(call: Call, scope: Scope, issuer: TokenIssuer, audiences: Sequence[str], lookup: Lookup) -> Reply:
    options = write_options(call.query, "CreateOptions")
    body = await read_object(call, TOKEN_REQUEST, scope.schemas, options.field_validation)
    match_namespace(body, call.info.namespace)
    account = (await scope.store.get(call.info.namespace, call.info.name)).decode()
    body.setdefault("spec", {}).setdefault("expirationSeconds", DEFAULT_SECONDS)
    attributes = scope.attributes(call, CREATE, body, None, options.dry_run, TOKEN_REQUEST)
    await scope.admission.mutate(attributes)
    spec = body.setdefault("spec", {})  # what admission has made of it
    spec.setdefault("expirationSeconds", DEFAULT_SECONDS)
    _check(spec)
    await scope.admission.validate(attributes)
    if not spec.get("audiences"):  # after admission: it asks whether somebody else's were wished for
        spec["audiences"] = list(audiences)
    bound = await _bound(account, spec.get("boundObjectRef"), lookup)
    now = int(call.received)
    seconds = int(spec["expirationSeconds"])
    if issuer.longest and seconds > issuer.longest:
        call.warnings.append(f"requested expiration of {seconds} seconds shortened to {issuer.longest} seconds")
        seconds = spec["expirationSeconds"] = issuer.longest
    ours = set(spec["audiences"]) <= set(audiences)  # others know nothing of our transition from tokens without an end
    extended = issuer.extends and seconds == _INJECTED_SECONDS and "pod" in bound and ours
    lasting, warn_after = (_EXTENDED_SECONDS, seconds) if extended else (seconds, 0)
    token = issuer.issue(account, spec["audiences"], now, lasting, bound, warn_after)
    kept = {name: account["metadata"][name] for name in ("name", "namespace") if name in account["metadata"]}
    answer = {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {**kept, "creationTimestamp": format_time(call.now)},
        "spec": spec,
        # the client is told the time it asked for, so that a kubelet renews long before an extended token lapses
        "status": {"token": token, "expirationTimestamp": format_time(datetime.fromtimestamp(now + seconds, UTC))},
    }
    return value_reply(call, answer, status=201)


def _check(spec: Object) -> None:
    seconds = spec["expirationSeconds"]
    found = []
    if seconds < MIN_SECONDS:
        found.append(fieldpath.invalid("spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"))
    if seconds > MAX_SECONDS:
        found.append(fieldpath.invalid("spec.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds"))
    if found:
        raise errors.invalid("TokenRequest", "", found, "authentication.k8s.io")


async def _bound(account: Object, reference: Object | None, lookup: Lookup) -> dict[str, Object]:
    """The objects whose end ends the token: they must exist, and a pod must run as this account."""
    if not reference:
        return {}
    kind, name = reference.get("kind") or "", reference.get("name") or ""
    namespace = account["metadata"]["namespace"]
    resources = {("Pod", "v1"): "pods", ("Secret", "v1"): "secrets", ("Node", "v1"): "nodes"}
    resource = resources.get((kind, reference.get("apiVersion") or "v1"))
    if resource is None:
        text = f"cannot bind token for serviceaccount {account['metadata']['name']!r} to object of kind {kind!r}"
        raise errors.bad_request(text.replace("'", '"'))
    found = await lookup(resource, "" if kind == "Node" else namespace, name)
    if found is None:
        raise errors.not_found(resource, name)
    uid = found["metadata"]["uid"]
    if reference.get("uid") and reference["uid"] != uid:
        why = (
            f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        raise errors.conflict(resource, name, why)
    bound = {kind.lower(): {"name": name, "uid": uid}}
    if kind == "Pod":
        spec = found.get("spec") or {}
        if (spec.get("serviceAccountName") or "default") != account["metadata"]["name"]:
            name = account["metadata"]["name"]
            text = f'cannot bind token for serviceaccount "{name}" to pod running with different serviceaccount name.'
            raise errors.bad_request(text)
        if spec.get("nodeName"):
            node = await lookup("nodes", "", spec["nodeName"])
            bound["node"] = {"name": spec["nodeName"], **({"uid": node["metadata"]["uid"]} if node else {})}
    return bound
