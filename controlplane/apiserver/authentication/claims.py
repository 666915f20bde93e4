"""From the claims of a verified ID token to a user: by claim names and prefixes, or by CEL expressions. Pure.

Made once per issuer, which is when expressions are compiled; ``oidc`` calls :meth:`Mapper.user` for each new token. Upstream's
``plugin/pkg/authenticator/token/oidc``.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from component.errors import OperatorError
from controlplane.apiserver.authentication.interface import AuthenticationFailed, UserInfo
from controlplane.apiserver.authentication.issuers import Issuer

if TYPE_CHECKING:
    from apimachinery.cel.environment import Program

Claims = Mapping[str, Any]
_VERIFIED = "email_verified"


class Mapper:
    """Raises OperatorError, naming the member of the configuration, for an expression that cannot be used."""

    def __init__(self, issuer: Issuer, where: str = "jwt") -> None:
        self._issuer = issuer
        self._programs: dict[str, Program] = {}
        self._claim_rules: list[tuple[Program, str]] = []
        self._user_rules: list[tuple[Program, str]] = []
        self._extra: list[tuple[str, Program]] = []
        if issuer.uses_expressions:
            self._compile(issuer, where)

    def _compile(self, issuer: Issuer, where: str) -> None:
        from apimachinery.cel.environment import BOOL, LISTS, MAP, STRING, STRINGS, CompileError, Environment, Kind, structure

        claims = Environment({"claims": MAP})
        user = Environment(
            {"user": structure("UserInfo", {"username": STRING, "uid": STRING, "groups": STRINGS, "extra": LISTS})}
        )

        def compiled(environment: Environment, text: str, member: str, *results: Kind) -> "Program":
            try:
                return environment.compile(text, *results)
            except CompileError as error:
                raise OperatorError(f"{where}.{member}: Invalid value: {text!r}: {error}") from None

        for name, text, results in (
            ("username", issuer.username_expression, (STRING,)),
            ("groups", issuer.groups_expression, (STRING, STRINGS)),
            ("uid", issuer.uid_expression, (STRING,)),
        ):
            if text:
                self._programs[name] = compiled(claims, text, f"claimMappings.{name}.expression", *results)
        for number, (key, text) in enumerate(issuer.extra):
            member = f"claimMappings.extra[{number}].valueExpression"
            self._extra.append((key, compiled(claims, text, member, STRING, STRINGS)))
        for number, (text, message) in enumerate(issuer.claim_rules):
            member = f"claimValidationRules[{number}].expression"
            self._claim_rules.append((compiled(claims, text, member, BOOL), message))
        for number, (text, message) in enumerate(issuer.user_rules):
            member = f"userValidationRules[{number}].expression"
            self._user_rules.append((compiled(user, text, member, BOOL), message))
        self._check_email(where)

    def _check_email(self, where: str) -> None:
        """Whoever is named by an e-mail address must have shown that it is theirs."""
        name = self._programs.get("username")
        if name is None or not _reads(name, "email"):
            return
        others = [program for _, program in self._extra] + [program for program, _ in self._claim_rules]
        if not any(_reads(program, _VERIFIED) for program in (name, *others)):
            where = f"{where}.claimMappings.username.expression"
            others_may = "claimMappings.extra[*].valueExpression or claimValidationRules[*].expression"
            raise OperatorError(
                f"{where}: Invalid value: {name.expression!r}: claims.email_verified must be used in"
                f" claimMappings.username.expression or {others_may} when claims.email is used in"
                " claimMappings.username.expression"
            )

    def user(self, claims: Claims) -> UserInfo:
        """Raises AuthenticationFailed for claims that make no user of this issuer."""
        self._validate(claims)
        name, uid = self._name(claims), self._uid(claims)
        made = UserInfo(name, uid, self._groups(claims), self._extras(claims))
        if self._user_rules:
            value = {
                "username": made.name,
                "uid": made.uid,
                "groups": list(made.groups),
                "extra": {key: list(values) for key, values in made.extra.items()},
            }
            for program, message in self._user_rules:
                if _evaluated(program, {"user": value}, "user validation") is not True:
                    raise AuthenticationFailed(_failed("user validation", program, message))
        return made

    def _validate(self, claims: Claims) -> None:
        for claim, wanted in self._issuer.required.items():
            if claims.get(claim) != wanted:
                raise AuthenticationFailed(f"oidc: claim {claim!r} has not the required value")
        for program, message in self._claim_rules:
            if _evaluated(program, {"claims": claims}, "claim validation") is not True:
                raise AuthenticationFailed(_failed("claim validation", program, message))

    def _name(self, claims: Claims) -> str:
        issuer = self._issuer
        if "username" in self._programs:
            name = _evaluated(self._programs["username"], {"claims": claims}, "username")
            if not isinstance(name, str) or not name:
                raise AuthenticationFailed("oidc: the username expression must give text that is not empty")
            return name
        name = claims.get(issuer.username_claim)
        if not isinstance(name, str) or not name:
            raise AuthenticationFailed(f"oidc: claim {issuer.username_claim!r} is missing or no text")
        if issuer.username_claim == "email" and claims.get(_VERIFIED, True) is not True:
            raise AuthenticationFailed("oidc: email not verified")
        return issuer.username_prefix + name

    def _uid(self, claims: Claims) -> str:
        if "uid" in self._programs:
            uid = _evaluated(self._programs["uid"], {"claims": claims}, "uid")
            if not isinstance(uid, str):
                raise AuthenticationFailed("oidc: the uid expression must give text")
            return uid
        found = claims.get(self._issuer.uid_claim) if self._issuer.uid_claim else ""
        return found if isinstance(found, str) else ""

    def _groups(self, claims: Claims) -> tuple[str, ...]:
        issuer = self._issuer
        if "groups" in self._programs:
            return _texts(_evaluated(self._programs["groups"], {"claims": claims}, "groups"), "groups")
        groups = claims.get(issuer.groups_claim) if issuer.groups_claim else None
        listed = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
        if any(not isinstance(each, str) for each in listed):
            raise AuthenticationFailed(f"oidc: claim {issuer.groups_claim!r} is no list of texts")
        return tuple(issuer.groups_prefix + each for each in listed if each)

    def _extras(self, claims: Claims) -> dict[str, tuple[str, ...]]:
        found = {key: _texts(_evaluated(program, {"claims": claims}, key), key) for key, program in self._extra}
        return {key: values for key, values in found.items() if values}


def _reads(program: "Program", claim: str) -> bool:
    """Whether an expression looks at a claim, by name or by index."""
    from apimachinery.cel.ast import Call, Constant, Ident, Node, Select, children

    def looks(node: Node) -> bool:
        match node:
            case Select(Ident("claims"), field) if field == claim:
                return True
            case Call("_[_]" | "_[?_]" | "_?._", _, (Ident("claims"), Constant(value))) if value == claim:
                return True
        return any(looks(child) for child in children(node))

    return looks(program.tree)


def _evaluated(program: "Program", values: Mapping[str, Any], what: str) -> Any:
    from apimachinery.cel.environment import EvaluationError

    try:
        return program.evaluate(values)
    except EvaluationError as error:
        raise AuthenticationFailed(f"oidc: error evaluating {what} expression: {error}") from None


def _failed(what: str, program: "Program", message: str) -> str:
    return f"oidc: {what} expression {program.expression!r} failed: {message or 'it is not true'}"


def _texts(found: Any, what: str) -> tuple[str, ...]:
    """Text or a list of it; what is empty does not count."""
    listed = [found] if isinstance(found, str) else [] if found is None else found
    if not isinstance(listed, list) or any(not isinstance(each, str) for each in listed):
        raise AuthenticationFailed(f"oidc: the expression of {what} must give text or a list of texts")
    return tuple(each for each in listed if each)
