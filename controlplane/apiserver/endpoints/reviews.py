"""Questions about identities and permissions: TokenReview, the access reviews and SelfSubjectReview. Nothing is stored.

Webhooks of admission are shown them, as upstream's are up to v1.36; v1.37 keeps them to itself.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from apimachinery import errors, fieldpath, fields
from apimachinery.gvk import GroupVersionKind
from apimachinery.schema import Schemas
from controlplane.apiserver.admission.chain import AdmissionChain
from controlplane.apiserver.admission.interface import CREATE, Form
from controlplane.apiserver.admission.interface import Attributes as Write
from controlplane.apiserver.audit.policy import Level
from controlplane.apiserver.authentication.interface import AuthenticationFailed, Authenticator, Credentials, Remarks, UserInfo
from controlplane.apiserver.authentication.service_account import ServiceAccountTokens
from controlplane.apiserver.authorization.interface import Attributes, Decision
from controlplane.apiserver.authorization.rules import rule_value
from controlplane.apiserver.authorization.union import Replaceable
from controlplane.apiserver.endpoints.body import read_object
from controlplane.apiserver.endpoints.options import write_options
from controlplane.apiserver.endpoints.respond import value_reply
from controlplane.apiserver.registry.strategy import ResourceInfo, Strategy
from controlplane.apiserver.wire.call import Call
from controlplane.apiserver.wire.reply import Reply

Object = dict[str, Any]
_AUTHENTICATION, _AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"


@dataclass(frozen=True, slots=True)
class Judges:
    """Who answers the questions."""

    tokens: Authenticator  # every authenticator that knows bearer tokens
    service_accounts: ServiceAccountTokens | None
    authorizer: Replaceable
    audiences: Sequence[str]
    schemas: Schemas


class ReviewStrategy(Strategy):
    """Only for discovery: a review is answered, never stored."""

    def __init__(self, info: ResourceInfo) -> None:
        self.info = info


def _info(group: str, kind: str, plural: str, namespaced: bool = False) -> ResourceInfo:
    return ResourceInfo(GroupVersionKind(group, "v1", kind), plural, kind.lower(), namespaced, verbs=("create",))


TOKEN_REVIEW = _info(_AUTHENTICATION, "TokenReview", "tokenreviews")
SELF_SUBJECT_REVIEW = _info(_AUTHENTICATION, "SelfSubjectReview", "selfsubjectreviews")
SUBJECT_ACCESS_REVIEW = _info(_AUTHORIZATION, "SubjectAccessReview", "subjectaccessreviews")
LOCAL_SUBJECT_ACCESS_REVIEW = _info(_AUTHORIZATION, "LocalSubjectAccessReview", "localsubjectaccessreviews", True)
SELF_SUBJECT_ACCESS_REVIEW = _info(_AUTHORIZATION, "SelfSubjectAccessReview", "selfsubjectaccessreviews")
SELF_SUBJECT_RULES_REVIEW = _info(_AUTHORIZATION, "SelfSubjectRulesReview", "selfsubjectrulesreviews")
REVIEWS = (
    SELF_SUBJECT_RULES_REVIEW,
    TOKEN_REVIEW,
    SELF_SUBJECT_REVIEW,
    SUBJECT_ACCESS_REVIEW,
    LOCAL_SUBJECT_ACCESS_REVIEW,
    SELF_SUBJECT_ACCESS_REVIEW,
)


async def review(call: Call, info: ResourceInfo, judges: Judges, admission: AdmissionChain, forms: Sequence[Form]) -> Reply:
    """Answer a review of the kind that ``info`` names. ``forms`` are those of admission, the same ones each time."""
    options = write_options(call.query, "CreateOptions")
    body = await read_object(call, info.gvk, judges.schemas, options.field_validation)
    answer = _ANSWERS[info.plural]
    write = Write(
        CREATE,
        info.gvk,
        info.plural,
        "",
        call.info.namespace if info.namespaced else "",
        body["metadata"].get("name") or "",
        body,
        None,
        call.user,
        options.dry_run,
        call.query,
        warnings=call.warnings,
        annotations=call.annotations,
        deadline=call.started + call.seconds,
        audits_bodies=call.record is not None and call.record.verdict.level >= Level.REQUEST,
        forms=lambda: forms,
    )
    await admission.mutate(write)
    await admission.validate(write)
    body["status"] = await answer(call, body.get("spec") or {}, judges)
    return value_reply(call, body, status=201)


async def _token(call: Call, spec: Object, judges: Judges) -> Object:
    token = spec.get("token") or ""
    if not token:
        raise errors.bad_request("token is required for TokenReview in authentication")
    audiences = spec.get("audiences") or list(judges.audiences)
    try:
        remarks = Remarks(call.annotations, call.warnings)
        found = await judges.service_accounts.review(token, audiences, remarks) if judges.service_accounts else None
        if found is not None:
            user, named = found
            return {"authenticated": True, "user": user_value(user), "audiences": named}
        other = await judges.tokens.authenticate(Credentials(bearer_token=token, remarks=remarks))
    except AuthenticationFailed as failure:
        return {"user": {}, "error": str(failure)}
    if other is None:
        return {"user": {}, "error": "invalid bearer token"}
    return {"authenticated": True, "user": user_value(other), "audiences": audiences}


def user_value(user: UserInfo) -> Object:
    value: Object = {"username": user.name}
    if user.uid:
        value["uid"] = user.uid
    if user.groups:
        value["groups"] = list(user.groups)
    if user.extra:
        value["extra"] = {key: list(values) for key, values in user.extra.items()}
    return value


async def _self(call: Call, spec: Object, judges: Judges) -> Object:
    return {"userInfo": user_value(call.user)}


async def _subject_access(call: Call, spec: Object, judges: Judges) -> Object:
    if not spec.get("user") and not spec.get("groups"):
        missing = fieldpath.invalid("spec.user", "", "at least one of user or group must be specified")
        raise errors.invalid("", "", [missing], _AUTHORIZATION)
    extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
    user = UserInfo(spec.get("user") or "", spec.get("uid") or "", tuple(spec.get("groups") or ()), extra)
    return await _access(user, spec, judges)


async def _local_access(call: Call, spec: Object, judges: Judges) -> Object:
    named = (spec.get("resourceAttributes") or {}).get("namespace") or ""
    if named != call.info.namespace:
        wrong = fieldpath.invalid("spec.resourceAttributes.namespace", named, "must match metadata.namespace")
        raise errors.invalid("", "", [wrong], _AUTHORIZATION)
    return await _subject_access(call, spec, judges)


async def _self_access(call: Call, spec: Object, judges: Judges) -> Object:
    return await _access(call.user, spec, judges)


async def _access(user: UserInfo, spec: Object, judges: Judges) -> Object:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is None and path is None:
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        raise errors.invalid("", "", [fieldpath.invalid("spec.resourceAttributes", "null", text)], _AUTHORIZATION)
    if resource is not None and path is not None:
        text = "cannot be specified in combination with resourceAttributes"
        raise errors.invalid("", "", [fieldpath.invalid("spec.nonResourceAttributes", path, text)], _AUTHORIZATION)
    if resource is not None:
        asked = Attributes(
            user,
            resource.get("verb") or "",
            api_group=resource.get("group") or "",
            api_version=resource.get("version") or "",
            resource=resource.get("resource") or "",
            subresource=resource.get("subresource") or "",
            namespace=resource.get("namespace") or "",
            name=resource.get("name") or "",
            field_selector=_selector(resource.get("fieldSelector"), "fieldSelector"),
            label_selector=_selector(resource.get("labelSelector"), "labelSelector"),
        )
    else:
        assert path is not None
        asked = Attributes(user, path.get("verb") or "", path.get("path") or "", is_resource=False)
    decision, reason = await judges.authorizer.authorize(asked)
    status: Object = {"allowed": decision is Decision.ALLOW}
    if decision is Decision.DENY:
        status["denied"] = True
    if reason:
        status["reason"] = reason
    return status


def _selector(given: Object | None, name: str) -> str:
    """A selector of a review as text; requirements that selectors cannot say are left out, which asks for more, not for less."""
    if not given:
        return ""
    path = f"spec.resourceAttributes.{name}"
    raw, requirements = given.get("rawSelector") or "", given.get("requirements") or []
    if raw and requirements:
        text = "must not be specified at the same time as requirements"
        raise errors.invalid("", "", [fieldpath.invalid(f"{path}.rawSelector", raw, text)], _AUTHORIZATION)
    if not raw and not requirements:
        raise errors.invalid("", "", [fieldpath.required(f"{path}.requirements")], _AUTHORIZATION)
    if raw:
        return str(raw)
    by_field = name == "fieldSelector"
    return ",".join(filter(None, (_requirement(each, by_field=by_field) for each in requirements)))


def _requirement(given: Object, *, by_field: bool) -> str:
    key, values = given.get("key") or "", [str(each) for each in given.get("values") or []]
    match given.get("operator"):
        case "In" if len(values) == 1:
            return f"{key}={fields.escape(values[0]) if by_field else values[0]}"
        case "NotIn" if len(values) == 1:
            return f"{key}!={fields.escape(values[0]) if by_field else values[0]}"
        case "In" if values and not by_field:
            return f"{key} in ({','.join(values)})"
        case "NotIn" if values and not by_field:
            return f"{key} notin ({','.join(values)})"
        case "Exists" if not by_field:
            return str(key)
        case "DoesNotExist" if not by_field:
            return f"!{key}"
    return ""


async def _self_rules(call: Call, spec: Object, judges: Judges) -> Object:
    namespace = spec.get("namespace") or ""
    if not namespace:
        raise errors.bad_request("no namespace on request")
    rules, problems = judges.authorizer.rules_for(call.user, namespace)
    values = [rule_value(rule) for rule in rules]
    found: Object = {
        "resourceRules": [value for value in values if "resources" in value],
        "nonResourceRules": [value for value in values if "nonResourceURLs" in value],
        "incomplete": bool(problems),
    }
    if problems:
        found["evaluationError"] = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
    return found


_ANSWERS: dict[str, Callable[[Call, Object, Judges], Awaitable[Object]]] = {
    "tokenreviews": _token,
    "selfsubjectreviews": _self,
    "subjectaccessreviews": _subject_access,
    "localsubjectaccessreviews": _local_access,
    "selfsubjectaccessreviews": _self_access,
    "selfsubjectrulesreviews": _self_rules,
}
