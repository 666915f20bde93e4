"""What all objects of the group share: which requests they are about, and how a webhook is reached."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from controlplane.apiserver.kinds.shared import checks

Object = dict[str, Any]
GROUP = "admissionregistration.k8s.io"
FAILURE_POLICIES = ("Fail", "Ignore")
MATCH_POLICIES = ("Equivalent", "Exact")
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
_URL_FORM = "; desired format: https://host[/path]"


def default_rule(rule: Object) -> None:
    if rule.get("scope") is None:
        rule["scope"] = "*"


def default_match(match: Object) -> None:
    """``MatchResources``: everything, unless selectors say otherwise."""
    for selector in ("namespaceSelector", "objectSelector"):
        if match.get(selector) is None:
            match[selector] = {}
    if match.get("matchPolicy") is None:
        match["matchPolicy"] = "Equivalent"
    for part in ("resourceRules", "excludeResourceRules"):
        for rule in match.get(part) or ():
            default_rule(rule)


def check_rule(rule: Mapping[str, Any], path: str) -> list[FieldError]:
    """``RuleWithOperations``."""
    found: list[FieldError] = []
    operations = rule.get("operations") or ()
    if not operations:
        found.append(fieldpath.required(f"{path}.operations"))
    if len(operations) > 1 and "*" in operations:
        text = "if '*' is present, must not specify other operations"
        found.append(fieldpath.invalid(f"{path}.operations", list(operations), text))
    for position, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            found.append(fieldpath.not_supported(f"{path}.operations[{position}]", operation, _OPERATIONS))
    for field, word in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        found += _check_names(rule.get(field) or (), f"{path}.{field}", word, empty=field == "apiGroups")
    found += _check_resources(rule.get("resources") or (), f"{path}.resources")
    if rule.get("scope") is not None and rule["scope"] not in _SCOPES:
        found.append(fieldpath.not_supported(f"{path}.scope", rule["scope"], _SCOPES))
    return found


def _check_names(values: Sequence[str], path: str, word: str, *, empty: bool) -> list[FieldError]:
    found = [] if values else [fieldpath.required(path)]
    if len(values) > 1 and "*" in values:
        found.append(fieldpath.invalid(path, list(values), f"if '*' is present, must not specify other {word}"))
    if not empty:
        found += [fieldpath.required(f"{path}[{position}]") for position, value in enumerate(values) if not value]
    return found


def _check_resources(resources: Sequence[str], path: str) -> list[FieldError]:
    found = [] if resources else [fieldpath.required(path)]
    whole = {one.partition("/")[2] for one in resources if one.startswith("*/")}  # subresources of everything
    every = {one.partition("/")[0] for one in resources if one.endswith("/*")}  # everything of these resources
    for position, one in enumerate(resources):
        if not one:
            found.append(fieldpath.required(f"{path}[{position}]"))
            continue
        resource, _, part = one.partition("/")
        if part and part != "*" and resource in every:
            text = f"if '{resource}/*' is present, must not specify {one}"
            found.append(fieldpath.invalid(f"{path}[{position}]", one, text))
        if part and resource != "*" and part in whole:
            text = f"if '*/{part}' is present, must not specify {one}"
            found.append(fieldpath.invalid(f"{path}[{position}]", one, text))
    if "*/*" in resources and len(resources) > 1:
        text = "if '*/*' is present, must not specify other resources"
        found.append(fieldpath.invalid(path, list(resources), text))
    elif "*" in resources and any("/" not in one and one != "*" for one in resources):
        text = "if '*' is present, must not specify other resources without subresources"
        found.append(fieldpath.invalid(path, list(resources), text))
    return found


def check_match(match: Mapping[str, Any], path: str) -> list[FieldError]:
    """``MatchResources``."""
    found: list[FieldError] = []
    policy = match.get("matchPolicy")
    if policy is None:
        found.append(fieldpath.required(f"{path}.matchPolicy"))
    elif policy not in MATCH_POLICIES:
        found.append(fieldpath.not_supported(f"{path}.matchPolicy", policy, MATCH_POLICIES))
    for selector in ("namespaceSelector", "objectSelector"):
        if match.get(selector) is None:
            found.append(fieldpath.required(f"{path}.{selector}"))
        found += checks.label_selector(match.get(selector), f"{path}.{selector}")
    for part in ("resourceRules", "excludeResourceRules"):
        for position, rule in enumerate(match.get(part) or ()):
            found += check_rule(rule, f"{path}.{part}[{position}]")
    return found


def check_conditions(conditions: Sequence[Mapping[str, Any]], path: str) -> list[FieldError]:
    """Names and presence; what an expression says is for whoever evaluates it."""
    found: list[FieldError] = []
    taken: set[str] = set()
    if len(conditions) > 64:
        found.append(fieldpath.too_many(path, len(conditions), 64))
    for position, condition in enumerate(conditions):
        name = condition.get("name") or ""
        where = f"{path}[{position}]"
        if not str(condition.get("expression") or "").strip():
            found.append(fieldpath.required(f"{where}.expression"))
        if not name:
            found.append(fieldpath.required(f"{where}.name"))
        else:
            found += checks.each(f"{where}.name", name, names.is_qualified_name(name))
        if name in taken:
            found.append(fieldpath.duplicate(f"{where}.name", name))
        taken.add(name)
    return found


def check_client(client: Mapping[str, Any], path: str) -> list[FieldError]:
    """``WebhookClientConfig``: exactly one of a URL and a Service."""
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        return [fieldpath.required(path, "exactly one of url or service is required")]
    return check_url(url, f"{path}.url") if url is not None else check_service(service or {}, f"{path}.service")


def check_url(url: str, path: str) -> list[FieldError]:
    try:
        parts = urlsplit(url)
        host = parts.netloc
    except ValueError as error:
        return [fieldpath.required(path, f"url must be a valid URL: {error}{_URL_FORM}")]
    found: list[FieldError] = []
    if parts.scheme != "https":
        found.append(fieldpath.invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{_URL_FORM}"))
    if not host:
        found.append(fieldpath.invalid(path, host, f"host must be specified{_URL_FORM}"))
    if "@" in host:
        text = "user information is not permitted in the URL"
        found.append(fieldpath.invalid(path, host.rpartition("@")[0], text))
    for value, word in ((parts.fragment, "fragments"), (parts.query, "query parameters")):
        if value:
            found.append(fieldpath.invalid(path, value, f"{word} are not permitted in the URL"))
    return found


def check_service(service: Mapping[str, Any], path: str) -> list[FieldError]:
    missing = [field for field in ("name", "namespace") if not service.get(field)]
    found = [fieldpath.required(f"{path}.{field}", f"service {field} is required") for field in missing]
    port = service.get("port")
    if port is not None and not 1 <= port <= 65535:
        found.append(fieldpath.invalid(f"{path}.port", port, "port is not valid: must be between 1 and 65535, inclusive"))
    where = service.get("path")
    if where is not None and where != "/":
        found += _check_path(where, f"{path}.path")
    return found


def _check_path(text: str, path: str) -> list[FieldError]:
    if not text.startswith("/"):
        return [fieldpath.invalid(path, text, "must start with a '/'")]
    found: list[FieldError] = []
    for position, step in enumerate(text[1:].removesuffix("/").split("/")):
        if not step:
            found.append(fieldpath.invalid(path, text, f"segment[{position}] may not be empty"))
        else:
            problems = names.is_dns1123_subdomain(step)
            found += [fieldpath.invalid(path, text, f"segment[{position}]: {problem}") for problem in problems]
    return found
