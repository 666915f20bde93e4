"""Programs that give credentials: which images are theirs, what they are asked, how long an answer counts."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apimachinery import errors
from component.clock import FakeClock
from component.metrics import Registry
from component.process import FakeRunner
from node.kubelet.images import credential_config, image_globs
from node.kubelet.images.credential_config import ConfigurationError, Provider, TokenAttributes
from node.kubelet.images.credential_plugin import Accounts, AnswerError, Plugin, PluginMetrics, Plugins, parse_answer
from tests.support.pod_workers import pod

V1 = credential_config.V1


@pytest.mark.parametrize(
    ("pattern", "image", "fits"),
    [
        ("registry.io", "registry.io/app", True),
        ("registry.io", "registry.io:80/app", False),
        ("registry.io:80", "registry.io:80/app", True),
        ("*.registry.io", "a.registry.io/app", True),
        ("*.registry.io", "a.b.registry.io/app", False),
        ("*.*.registry.io", "a.b.registry.io/app", True),
        ("123.dkr.ecr.*.amazonaws.com", "123.dkr.ecr.eu-1.amazonaws.com/app", True),
        ("app*.registry.io", "app1.registry.io/x", True),
        ("registry.io/team", "registry.io/team/app", True),
        ("registry.io/team", "registry.io/other", False),
        ("*", "registry.io/app", False),
        ("*.io:80", "registry.io/app", False),
        ("https://registry.io", "registry.io/app", True),
        ("*.k8s.io", "registryXk8s.io/app", False),
    ],
)
def test_patterns(pattern: str, image: str, fits: bool) -> None:
    assert image_globs.matches(pattern, image) is fits


class World:
    """One program. ``say`` is its next answer."""

    def __init__(self, **changes: Any) -> None:
        self.clock = FakeClock()
        self.say: dict[str, Any] = {"cacheKeyType": "Image"}
        self.runner = FakeRunner(self._run)
        self.status = 0
        self.service_accounts: dict[str, dict[str, Any]] = {}
        self.asked_for: list[Any] = []
        provider = Provider("p", V1, ("*.registry.io",), 60.0)
        accounts = Accounts(self._account, self._token)
        metrics = PluginMetrics(Registry(process=False))
        self.plugin = Plugin(replace(provider, **changes), Path("/bin/p"), self.runner, self.clock, accounts, metrics)

    def _run(self, argv: Sequence[str], stdin: bytes) -> bytes | int:
        if self.status:
            return self.status
        body = {"kind": "CredentialProviderResponse", "apiVersion": self.plugin.provider.api_version}
        return json.dumps({**body, "auth": {"*.registry.io": {"username": "u", "password": "p"}}, **self.say}).encode()

    async def _account(self, namespace: str, name: str) -> dict[str, Any]:
        if name not in self.service_accounts:
            raise errors.not_found("serviceaccounts", name)
        return self.service_accounts[name]

    async def _token(self, namespace: str, name: str, spec: Any) -> dict[str, Any]:
        self.asked_for.append(spec)
        return {"status": {"token": f"token-{len(self.asked_for)}"}}

    async def get(self, image: str = "a.registry.io/app", account: str = "") -> list[tuple[str, str]]:
        found = await self.plugin.credentials(image, pod(serviceAccountName=account))
        return [(each.credential.username, each.credential.password) for each in found]

    @property
    def runs(self) -> int:
        return len(self.runner.calls)


async def test_a_program_is_asked_about_its_images_alone() -> None:
    world = World(args=("--x",))
    assert await world.get("elsewhere.io/app") == []
    assert world.runs == 0
    assert await world.get() == [("u", "p")]
    ((argv, stdin),) = world.runner.calls
    assert argv == ("/bin/p", "--x")
    assert json.loads(stdin) == {"kind": "CredentialProviderRequest", "apiVersion": V1, "image": "a.registry.io/app"}


@pytest.mark.parametrize(
    ("kind", "images", "runs"),
    [
        ("Image", ("a.registry.io/x", "a.registry.io/x", "a.registry.io/y"), 2),
        ("Registry", ("a.registry.io/x", "a.registry.io/y", "b.registry.io/x"), 2),
        ("Global", ("a.registry.io/x", "b.registry.io/y", "c.registry.io/z"), 1),
    ],
)
async def test_an_answer_counts_for_an_image_a_registry_or_everywhere(kind: str, images: tuple[str, ...], runs: int) -> None:
    world = World()
    world.say = {"cacheKeyType": kind}
    for image in images:
        assert await world.get(image) == [("u", "p")]
    assert world.runs == runs


@pytest.mark.parametrize(("said", "default", "seconds"), [("10s", 60.0, 10), (None, 60.0, 60), ("0s", 60.0, 0), (None, 0.0, 0)])
async def test_how_long_an_answer_counts(said: str | None, default: float, seconds: float) -> None:
    world = World(default_duration=default)
    world.say = {"cacheKeyType": "Image", **({"cacheDuration": said} if said else {})}
    await world.get()
    await world.clock.advance(max(0.0, seconds - 1))
    await world.get()
    assert world.runs == (2 if seconds == 0 else 1)
    await world.clock.advance(2)
    await world.get()
    assert world.runs == (3 if seconds == 0 else 2)


async def test_those_who_ask_at_once_share_one_run() -> None:
    world = World()
    assert await asyncio.gather(*(world.get() for _ in range(5))) == [[("u", "p")]] * 5
    assert world.runs == 1


async def test_a_program_that_fails_is_as_good_as_none() -> None:
    world = World()
    world.status = 1
    assert await world.get() == []
    world.status = 0
    world.say = {"cacheKeyType": "Nonsense"}
    assert await world.get() == []
    world.say = {"cacheKeyType": "Image"}
    assert await world.get() == [("u", "p")]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"password=secret", "error decoding credential provider plugin response from stdout"),
        (b"[]", "error decoding credential provider plugin response from stdout"),
        (b'{"apiVersion": "v2"}', "did not match expected apiVersion:credentialprovider.kubelet.k8s.io/v1, actual apiVersion:v2"),
        (b'{"apiVersion": "%b", "kind": "Other"}' % V1.encode(), "error decoding"),
    ],
)
def test_what_is_no_answer(data: bytes, why: str) -> None:
    with pytest.raises(AnswerError, match=why) as refused:
        parse_answer(data, V1)
    assert "secret" not in str(refused.value)


def _tokens(**changes: Any) -> TokenAttributes:
    return replace(TokenAttributes("registry.io", require_account=True), **changes)


async def test_a_program_is_given_the_accounts_token() -> None:
    world = World(tokens=_tokens(required=("a/role",), optional=("a/zone",)))
    assert await world.get() == [], "it needs an account"
    assert await world.get(account="missing") == []
    world.service_accounts["plain"] = {"metadata": {"uid": "1", "annotations": {}}}
    assert await world.get(account="plain") == [], "it did not ask for it"
    assert world.runs == 0
    world.service_accounts["app"] = {"metadata": {"uid": "2", "annotations": {"a/role": "r", "other": "x"}}}
    (found,) = await world.plugin.credentials("a.registry.io/app", pod(serviceAccountName="app"))
    assert found.account is not None
    assert (found.account.uid, found.account.name) == ("2", "app")
    (spec,) = world.asked_for
    assert spec["audiences"] == ["registry.io"]
    assert spec["boundObjectRef"]["kind"] == "Pod"
    sent = json.loads(world.runner.calls[0][1])
    assert sent["serviceAccountToken"] == "token-1"
    assert sent["serviceAccountAnnotations"] == {"a/role": "r"}


@pytest.mark.parametrize(("per_token", "runs"), [(False, 1), (True, 2)])
async def test_an_answer_counts_for_an_account_or_a_token(per_token: bool, runs: int) -> None:
    world = World(tokens=_tokens(cache_per_token=per_token))
    world.service_accounts |= {"a": {"metadata": {"uid": "1"}}, "b": {"metadata": {"uid": "2"}}}
    await world.get(account="a")
    await world.get(account="a")
    assert world.runs == runs
    await world.get(account="b")
    assert world.runs == runs + 1


async def test_without_an_account_where_none_is_required() -> None:
    world = World(tokens=_tokens(require_account=False))
    assert await world.get() == [("u", "p")]
    assert "serviceAccountToken" not in json.loads(world.runner.calls[0][1])


async def test_every_program_has_its_say() -> None:
    first, second = World(), World()
    second.say = {"cacheKeyType": "Image", "auth": {"a.registry.io/app": {"username": "v", "password": "q"}}}
    found = await Plugins((first.plugin, second.plugin)).credentials("a.registry.io/app", pod())
    assert [each.credential.username for each in found] == ["u", "v"]


CONFIG = """
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: ecr
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: ["*.dkr.ecr.*.amazonaws.com", "r.io:5000/path"]
  defaultCacheDuration: 12h
  args: [get]
  env: [{name: A, value: "1"}]
  tokenAttributes:
    serviceAccountTokenAudience: r.io
    requireServiceAccount: true
    cacheType: ServiceAccount
    requiredServiceAccountAnnotationKeys: [a/b]
"""


def test_a_configuration(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(CONFIG)
    (made,) = credential_config.read(file)
    assert (made.name, made.default_duration, made.args, made.env) == ("ecr", 43200.0, ("get",), {"A": "1"})
    assert made.tokens == TokenAttributes("r.io", require_account=True, required=("a/b",))
    second = CONFIG.replace("name: ecr", "name: gcr").replace("config.k8s.io/v1", "config.k8s.io/v1beta1")
    (tmp_path / "b.yml").write_text(second)
    (tmp_path / "notes.txt").write_text("x")
    assert [each.name for each in credential_config.read(tmp_path)] == ["ecr", "gcr"]
    (tmp_path / "c.json").write_text(second)
    with pytest.raises(ConfigurationError, match='duplicate provider name "gcr"'):
        credential_config.read(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("kind: CredentialProviderConfig", "kind: Other", r"\(wrong Kind\)"),
        ("name: ecr", "name: a/b", "provider name cannot contain '/'"),
        ("name: ecr", "name: ..", "provider name cannot be '..'"),
        ("k8s.io/v1\n  match", "k8s.io/v2\n  match", "providers.apiVersion: Unsupported value"),
        ("12h", "-1s", "must be greater than or equal to 0"),
        ("r.io:5000/path", "r.io:x", "match image is invalid"),
        ("cacheType: ServiceAccount", "cacheType: Never", "providers.tokenAttributes.cacheType: Unsupported value"),
        ("    cacheType: ServiceAccount\n", "", "cacheType is required to be set when tokenAttributes is specified"),
        ("requireServiceAccount: true", "requireServiceAccount: false", "requireServiceAccount cannot be false when"),
        ("[a/b]", "[a/b, a/b]", "Duplicate value"),
        ("args:", "arguments:", 'unknown field "providers\\[0\\].arguments"'),
        ("k8s.io/v1\n  match", "k8s.io/v1beta1\n  match", "tokenAttributes is only supported for"),
    ],
)
def test_a_configuration_that_cannot_be_used(tmp_path: Path, old: str, new: str, why: str) -> None:
    assert old in CONFIG
    file = tmp_path / "a.yaml"
    file.write_text(CONFIG.replace(old, new))
    with pytest.raises(ConfigurationError, match=why):
        credential_config.read(file)


def test_no_tokens_with_the_gate_off(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(CONFIG)
    with pytest.raises(ConfigurationError, match="tokenAttributes is not supported when"):
        credential_config.read(tmp_path, tokens=False)
