"""Servers with one defence taken away, and the test that must notice. ``test_mutants`` runs each; pure data and one-line faults.

``row`` names what docs/security.md calls it. A fault is planted in this process, so it reaches the servers that run in it.
"""

import base64
import os
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from apimachinery.codecs import yaml as yaml_codec
from apimachinery.patch import json_patch
from component import strict
from component.streams import upgrade
from controlplane.apiserver.admission.plugins import node_restriction, role_escalation
from controlplane.apiserver.admission.plugins.certificates import CertificateApproval
from controlplane.apiserver.admission.plugins.device_admin_access import DeviceAdminAccess
from controlplane.apiserver.admission.plugins.node_restriction import NodeRestriction
from controlplane.apiserver.admission.plugins.role_escalation import RoleEscalation
from controlplane.apiserver.admission.plugins.service_account import ServiceAccount
from controlplane.apiserver.admission.pod_security.plugin import PodSecurity
from controlplane.apiserver.authentication import bootstrap_token
from controlplane.apiserver.authorization import bootstrap_policy, rules
from controlplane.apiserver.authorization.interface import Decision
from controlplane.apiserver.authorization.node import NodeAuthorizer
from controlplane.apiserver.endpoints import connect_proxy, connect_tunnel
from controlplane.apiserver.endpoints.scope import Scope
from controlplane.apiserver.filters import authenticate
from controlplane.apiserver.kinds.core.pod_template import security as pod_security_fields
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.wire import info

Patch = pytest.MonkeyPatch
_APISERVER = "tests/integration/apiserver"
_STREAMS = "tests/integration/streams"
_KUBELET = "tests/unit/node/kubelet"
_HERE = "tests/security"


@dataclass(frozen=True, slots=True)
class Mutant:
    row: str
    test: str
    plant: Callable[[Patch], None]


def _returns(value: Any) -> Callable[..., Any]:
    return lambda *given, **named: value


def _allows(*_: Any) -> Awaitable[tuple[Decision, str]]:
    async def allow() -> tuple[Decision, str]:
        return Decision.ALLOW, ""

    return allow()


def _replies_as_tunnel(patch: Patch) -> None:
    """A refused upgrade leaves the connection open."""

    def refused(answer: upgrade.Refusal) -> Any:
        reply = kept(answer)
        reply.keep_alive = True
        return reply

    kept = connect_tunnel.refused
    patch.setattr(connect_tunnel, "refused", refused)
    for module in ("connect_streams", "connect_kubelet", "connect_proxy"):
        patch.setattr(f"controlplane.apiserver.endpoints.{module}.refused", refused, raising=False)


def _generous_yaml(patch: Patch) -> None:
    """Aliases are expanded, as far as this test can wait, and the whole is taken."""
    kept = yaml_codec._Builder.build

    def build(self: Any, node: Any, depth: int, aliased: bool = False) -> Any:
        self.visited += 1
        return "a" if self.visited > 50_000 else kept(self, node, depth, aliased)

    patch.setattr(yaml_codec._Builder, "count", _returns(None))
    patch.setattr(yaml_codec._Builder, "build", build)


def _any_segment(patch: Patch) -> None:
    """What a URL names is taken as it is."""
    patch.setattr(info, "_segment", lambda text, what: text)


def _naive_sub_path(patch: Patch) -> None:
    """The path is put behind the volume's and opened, whatever links it goes through."""
    from node.kubelet.volumes import subpath

    patch.setattr(subpath, "_open_inside", lambda volume, path: os.open(os.path.join(volume, path), os.O_PATH))


def _naive_removal(patch: Patch) -> None:
    """What is found is deleted, and what links point to with it."""
    import shutil

    from node.kubelet.volumes import mounts

    def remove(parent: int, name: str, device: int) -> None:
        path = os.path.realpath(f"/proc/self/fd/{parent}/{name}")
        for folder, _, files in os.walk(path, followlinks=True):
            for file in files:
                os.unlink(os.path.join(folder, file))
        shutil.rmtree(path, ignore_errors=True)

    patch.setattr(mounts, "_remove_at", remove)


def _naive_log(patch: Patch) -> None:
    from node.kubelet.server import log_file

    patch.setattr(log_file, "open_log", lambda path: os.open(path, os.O_RDONLY))


def _anonymous_kubelet(patch: Patch) -> None:
    from node.kubelet.server.auth import Gate

    async def admit(self: Gate, request: Any) -> Any:
        return None

    patch.setattr(Gate, "admit", admit)


def _read_is_enough(patch: Patch) -> None:
    """A handshake by GET counts as a read."""
    from node.kubelet.server import auth

    patch.setattr(auth, "_RUNS", frozenset())


def _read_is_enough_at_the_server(patch: Patch) -> None:
    patch.setattr(connect_proxy, "runs_commands", _returns(False))


def _git_repo(patch: Patch) -> None:
    """gitRepo is served by whatever serves emptyDir."""
    from node.kubelet.volumes.manager import Manager

    begin = Manager.__init__

    def init(self: Any, *given: Any, **named: Any) -> None:
        begin(self, *given, **named)
        self._plugins["gitRepo"] = self._plugins["emptyDir"]

    patch.setattr(Manager, "__init__", init)


def _local_profile_without_name(patch: Patch) -> None:
    patch.setattr(pod_security_fields, "_seccomp", _returns([]))


def _follows_redirects(patch: Patch) -> None:
    import aiohttp

    request = aiohttp.ClientSession._request

    async def follow(self: Any, *given: Any, **named: Any) -> Any:
        return await request(self, *given, **{**named, "allow_redirects": True})

    patch.setattr(aiohttp.ClientSession, "_request", follow)


def _edit_writes_endpoints(patch: Patch) -> None:
    from controlplane.apiserver.authorization.rules import rule

    more = rule("create update patch delete", "core discovery.k8s.io", "endpoints endpointslices")
    patch.setattr(bootstrap_policy, "_USER_ROLES", (("edit", (more,), "admin"),))


def _debug_pages(patch: Patch) -> None:
    """A page with what is inside, for everybody."""
    from controlplane.apiserver.authorization.rules import path_rule
    from controlplane.apiserver.endpoints.paths import Paths

    begin = Paths.__init__

    def init(self: Paths, exact: Any, prefixes: Any, listed: Any) -> None:
        begin(self, {**exact, "/debug/pprof": exact["/version"]}, prefixes, listed)

    patch.setattr(Paths, "__init__", init)
    everybody = {**bootstrap_policy.CLUSTER_ROLES, "system:public-info-viewer": (path_rule("get", "/version /debug/*"),)}
    patch.setattr(bootstrap_policy, "CLUSTER_ROLES", everybody)


def _labels_by_clients(patch: Patch) -> None:
    from controlplane.apiserver.filters import metrics

    patch.setattr(metrics, "key_of", lambda call: (call.method, call.path, "", "", "", "", "apiserver", ""))


def _headers_of_anybody(patch: Patch) -> None:
    """Whoever sends the headers of a proxy is believed."""
    from controlplane.apiserver.authentication import x509
    from controlplane.apiserver.authentication.interface import Credentials, UserInfo

    kept = x509.ClientCertificates.authenticate

    async def authenticate(self: Any, credentials: Credentials) -> UserInfo | None:
        name = credentials.headers.get("X-Remote-User")
        groups = credentials.headers.get("X-Remote-Group")
        scopes = credentials.headers.get("X-Remote-Extra-Scopes")
        if name or groups or scopes:
            return UserInfo(name or "nobody-special", groups=(groups or scopes or "x",))
        return await kept(self, credentials)

    patch.setattr(x509.ClientCertificates, "authenticate", authenticate)


def _impersonation_for_all(patch: Patch) -> None:
    from controlplane.apiserver.authorization.union import Replaceable

    kept = Replaceable.authorize

    async def authorize(self: Any, attributes: Any) -> Any:
        return await (_allows() if attributes.verb.startswith("impersonate") else kept(self, attributes))

    patch.setattr(Replaceable, "authorize", authorize)


def _no_reconciliation(patch: Patch) -> None:
    patch.setattr("controlplane.apiserver.poststart.reconciled_role", _returns(None))


def _no_localnet_rule(patch: Patch) -> None:
    from netproxy.backends.iptables import base

    patch.setattr(base, "_firewall", _returns(()))


def _forged_old(patch: Patch) -> None:
    """Admission is shown the new object as the old one."""
    from controlplane.apiserver.admission.interface import Attributes

    begin = Attributes.__init__

    def init(self: Attributes, *given: Any, **named: Any) -> None:
        begin(self, *given, **named)
        if self.old is not None and self.obj is not None:
            object.__setattr__(self, "old", self.obj)

    patch.setattr(Attributes, "__init__", init)


def _world_readable(patch: Patch) -> None:
    from component import x509

    kept = x509.write_private
    patch.setattr(x509, "write_private", lambda path, data, mode=0o600: kept(path, data, 0o644))


def _says_tokens(patch: Patch) -> None:
    """A token that nobody knows is written to the log."""
    import logging

    from controlplane.apiserver.authentication.anonymous import Anonymous

    kept = Anonymous.authenticate

    async def authenticate(self: Any, credentials: Any) -> Any:
        logging.getLogger("leak").warning("unknown token %s", credentials.bearer_token)
        return await kept(self, credentials)

    patch.setattr(Anonymous, "authenticate", authenticate)


def _uncounted_hosts(patch: Patch) -> None:
    from node.kubelet.eviction.ranking import PodUsed

    begin: Any = PodUsed.__init__

    def init(self: PodUsed, *given: Any, **named: Any) -> None:
        begin(self, *given[:2], (0, 0), *given[3:], **named)

    patch.setattr(PodUsed, "__init__", init)


def _climbing_paths(patch: Patch) -> None:
    """Volumes of the host may be named by a path that climbs."""
    from controlplane.apiserver.kinds.core.pod_template import volumes

    patch.setattr(volumes, "no_backstep", _returns([]))


def _backtracking(patch: Patch) -> None:
    import re

    from apimachinery.cel.library import regex

    patch.setattr(regex, "compiled", re.compile)


def _no_cost(patch: Patch) -> None:
    from apimachinery.cel import cost

    patch.setattr(cost, "PER_CALL", 1 << 63)


async def _nothing(*_: Any) -> None:
    """A check that does not look."""


def _rules_alone_count(patch: Patch) -> None:
    """What a role's labels do to others is not looked at."""
    told = ("rules", "aggregationRule", "roleRef", "subjects")
    patch.setattr(role_escalation, "_but_for_collection", lambda obj: [obj.get(name) for name in told])


def _tokens_in_any_header(patch: Patch) -> None:
    def naive(call: Any, authorization: str | None) -> str | None:
        token = kept(call, authorization)
        offered = call.headers.get("Sec-WebSocket-Protocol", "").rpartition("k8s.io.")[2]
        return token or (base64.urlsafe_b64decode(offered + "=" * (-len(offered) % 4)).decode() if offered else None)

    kept = authenticate.bearer_token
    patch.setattr(authenticate, "bearer_token", naive)


def _names_of_rules_do_not_count(patch: Patch) -> None:
    kept = rules.Rule.allows
    patch.setattr(rules.Rule, "allows", lambda self, asked: kept(replace(self, names=()), asked))


def _any_audience(patch: Patch) -> None:
    import jwt

    def decode(*given: Any, **named: Any) -> Any:
        return kept(*given, **{**named, "options": {**named.get("options", {}), "verify_aud": False}})

    kept = jwt.decode
    patch.setattr(jwt, "decode", decode)


def _first_name_counts(patch: Patch) -> None:
    from cryptography.x509.oid import NameOID

    from component import client_certificates

    def first(certificate: Any) -> tuple[str, tuple[str, ...]]:
        names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return str(names[0].value), kept(certificate)[1]

    kept = client_certificates.subject
    patch.setattr(client_certificates, "subject", first)


def _names_are_trimmed(patch: Patch) -> None:
    """Names are made alike before they are compared."""
    from controlplane.apiserver.authentication import x509

    kept = x509.user_of

    def folded(certificate: Any) -> Any:
        user = kept(certificate)
        return replace(user, groups=tuple(group.strip("\u200b \n").lower() for group in user.groups))

    patch.setattr(x509, "user_of", folded)


def _leaves(plugin: type, patch: Patch) -> None:
    patch.setattr(plugin, "handles", lambda self, attributes: False)


MUTANTS = (
    Mutant("CVE-2018-1002105", f"{_STREAMS}/test_connect.py::test_refused_upgrade_ends_the_connection", _replies_as_tunnel),
    Mutant(
        "CVE-2020-8558",
        "tests/integration/netproxy/test_traffic.py::test_loopback_of_the_node_is_closed_to_neighbours",
        _no_localnet_rule,
    ),
    Mutant(
        "CVE-2020-8554",
        f"{_HERE}/test_rights.py::test_external_addresses_can_be_denied",
        lambda patch: patch.setattr(
            "controlplane.apiserver.admission.plugins.deny_service_external_ips.DenyServiceExternalIPs.handles", _returns(False)
        ),
    ),
    Mutant("CVE-2019-11253", f"{_HERE}/test_input.py::test_bombs_cost_nothing[application/yaml-aliases]", _generous_yaml),
    Mutant(
        "CVE-2019-1002100",
        f"{_HERE}/test_input.py::test_patches_have_a_bound[10001]",
        lambda patch: patch.setattr(json_patch, "MAX_OPERATIONS", 1 << 30),
    ),
    Mutant("CVE-2021-25735", f"{_HERE}/test_old_object.py::test_admission_sees_what_is_stored", _forged_old),
    Mutant("CVE-2021-25741", f"{_KUBELET}/volumes/test_manager.py::test_sub_path_never_leaves_the_volume[out]", _naive_sub_path),
    Mutant(
        "CVE-2017-1002102",
        f"{_KUBELET}/volumes/test_manager.py::test_unmount_removes_everything_but_what_links_point_to",
        _naive_removal,
    ),
    Mutant(
        "CVE-2023-2728",
        f"{_HERE}/test_pods.py::test_nor_to_containers_added_later[more1]",
        lambda patch: _leaves(ServiceAccount, patch),
    ),
    Mutant(
        "CVE-2023-2727",
        f"{_HERE}/test_pods.py::test_security_standards_hold_for_containers_added_later",
        lambda patch: _leaves(PodSecurity, patch),
    ),
    Mutant("CVE-2023-2431", f"{_HERE}/test_pods.py::test_a_local_profile_has_a_name[profile0]", _local_profile_without_name),
    Mutant(
        "CVE-2022-3294",
        f"{_STREAMS}/test_connect.py::test_pod_proxy_refuses_our_own_loopback",
        lambda patch: patch.setattr(connect_proxy, "checked", lambda host: host),
    ),
    Mutant("CVE-2022-3162", f"{_HERE}/test_input.py::test_paths_lead_nowhere_else", _any_segment),
    Mutant("CVE-2019-11248", f"{_HERE}/test_input.py::test_nobody_looks_inside", _debug_pages),
    Mutant("CVE-2020-8552", f"{_HERE}/test_input.py::test_strangers_do_not_fill_the_metrics", _labels_by_clients),
    Mutant("CVE-2020-8555", f"{_STREAMS}/test_proxy.py::test_redirects_are_handed_on_not_followed", _follows_redirects),
    Mutant(
        "CVE-2021-25737",
        f"{_HERE}/test_rights.py::test_slices_name_no_address_of_the_reader_s_own[127.0.0.1]",
        lambda patch: patch.setattr(checks, "reachable_address", _returns([])),
    ),
    Mutant("CVE-2021-25740", f"{_HERE}/test_rights.py::test_who_edits_leads_no_traffic_elsewhere", _edit_writes_endpoints),
    Mutant("CVE-2024-10220", f"{_KUBELET}/volumes/test_manager.py::test_git_repo_is_refused", _git_repo),
    Mutant(
        "CVE-2025-5187",
        f"{_APISERVER}/test_identity.py::test_a_node_cannot_have_itself_deleted_nor_its_pods_relabelled",
        lambda patch: _leaves(NodeRestriction, patch),
    ),
    Mutant(
        "CVE-2025-4563",
        f"{_HERE}/test_intruders.py::test_a_node_tells_of_no_claims_of_its_pods",
        lambda patch: patch.setattr(node_restriction, "_claims_told", _returns(None)),
    ),
    Mutant("CVE-2020-8564", f"{_HERE}/test_secrets_in_logs.py::test_unknown_tokens_are_not_repeated", _says_tokens),
    Mutant(
        "exec by GET",
        f"{_STREAMS}/test_connect.py::test_commands_by_the_node_proxy_need_the_right_to_create[get-403]",
        _read_is_enough_at_the_server,
    ),
    Mutant(
        "exec by GET", f"{_KUBELET}/server/test_server.py::test_a_handshake_by_get_needs_the_right_to_create", _read_is_enough
    ),
    Mutant("anonymous kubelet", f"{_KUBELET}/server/test_server.py::test_strangers_stay_outside", _anonymous_kubelet),
    Mutant("log symlinks", f"{_KUBELET}/server/test_logs.py::test_links_are_not_followed", _naive_log),
    Mutant(
        "Node authorizer",
        f"{_HERE}/test_rights.py::test_a_node_reads_only_the_secrets_of_its_pods",
        lambda patch: patch.setattr(NodeAuthorizer, "_related", lambda self, node, asked: _allows()),
    ),
    Mutant(
        "RBAC escalation",
        f"{_HERE}/test_rights.py::test_who_may_bind_cannot_bind_what_they_lack",
        lambda patch: _leaves(RoleEscalation, patch),
    ),
    Mutant(
        "devices of others",
        f"{_APISERVER}/test_identity.py::test_a_node_offers_devices_of_its_own_alone",
        lambda patch: patch.setattr(NodeRestriction, "_slice", lambda self, attributes, node: None),
    ),
    Mutant(
        "devices of others",
        "tests/integration/scheduler/test_devices.py::test_admin_access_needs_a_namespace_that_is_marked",
        lambda patch: _leaves(DeviceAdminAccess, patch),
    ),
    Mutant(
        "labels of roles",
        f"{_HERE}/test_intruders.py::test_a_role_of_others_is_not_given_away_by_its_labels[gathered]",
        _rules_alone_count,
    ),
    Mutant(
        "audiences of nodes",
        f"{_HERE}/test_intruders.py::test_a_node_has_tokens_made_for_its_pods_alone",
        lambda patch: patch.setattr(NodeRestriction, "_audience", _nothing),
    ),
    Mutant(
        "tokens in subprotocols",
        f"{_HERE}/test_intruders.py::test_a_token_in_a_subprotocol_needs_a_websocket",
        _tokens_in_any_header,
    ),
    Mutant(
        "tokens in subprotocols",
        f"{_STREAMS}/test_proxy.py::test_a_token_in_a_subprotocol_goes_no_further",
        lambda patch: patch.setattr(upgrade, "without_tokens", lambda offer: offer),
    ),
    Mutant(
        "groups of bootstrap tokens",
        f"{_HERE}/test_intruders.py::test_a_bootstrap_token_joins_and_no_more[system:masters-False]",
        lambda patch: patch.setattr(bootstrap_token, "_EXTRA_GROUP", re.compile(".*", re.DOTALL)),
    ),
    Mutant("one right by name", f"{_HERE}/test_intruders.py::test_one_name_leads_to_no_other", _names_of_rules_do_not_count),
    Mutant("tokens of other audiences", f"{_HERE}/test_intruders.py::test_a_token_serves_whom_it_was_made_for", _any_audience),
    Mutant(
        "a right to change",
        f"{_HERE}/test_intruders.py::test_to_change_is_not_to_create",
        lambda patch: patch.setattr(Scope, "_may_create", _nothing),
    ),
    Mutant(
        "certificates by their own leave",
        f"{_HERE}/test_intruders.py::test_who_asks_for_a_certificate_does_not_approve_it",
        lambda patch: _leaves(CertificateApproval, patch),
    ),
    Mutant(
        "certificates by their own leave",
        f"{_HERE}/test_intruders.py::test_a_certificate_with_two_names_is_for_the_one_that_was_approved",
        _first_name_counts,
    ),
    Mutant(
        "names that look alike",
        f"{_HERE}/test_intruders.py::test_names_that_look_alike_are_others[ADMIN]",
        _names_are_trimmed,
    ),
    Mutant(
        "misspelt rules",
        "tests/unit/component/test_strict.py::test_a_misspelt_rule_lets_nobody_in",
        lambda patch: patch.setattr(strict, "check", _returns(None)),
    ),
    Mutant("weakened default roles", f"{_HERE}/test_rights.py::test_default_roles_come_back_at_start", _no_reconciliation),
    Mutant("impersonation", f"{_HERE}/test_rights.py::test_nobody_speaks_for_others_without_leave", _impersonation_for_all),
    Mutant("front proxy headers", f"{_HERE}/test_input.py::test_headers_of_proxies_are_not_believed", _headers_of_anybody),
    Mutant("CVE-2020-8557", f"{_HERE}/test_hosts_file.py::test_a_hosts_file_that_grows_evicts_its_pod", _uncounted_hosts),
    Mutant("CVE-2025-0426", f"{_KUBELET}/server/test_checkpoint.py::test_strangers_fill_no_disk", _anonymous_kubelet),
    Mutant("CVE-2026-3864", f"{_HERE}/test_pods.py::test_a_volume_of_the_host_does_not_climb", _climbing_paths),
    Mutant("patterns that take for ever", f"{_HERE}/test_expressions.py::test_no_pattern_takes_for_ever", _backtracking),
    Mutant("expressions without end", f"{_HERE}/test_expressions.py::test_no_expression_runs_for_ever", _no_cost),
    Mutant("private files", "tests/unit/component/test_x509.py", _world_readable),
)
