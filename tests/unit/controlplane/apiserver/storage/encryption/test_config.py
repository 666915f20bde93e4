"""EncryptionConfiguration: upstream's words for what is wrong, and which transformer a resource gets."""

import contextlib
import json
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from component.clock import FakeClock
from controlplane.apiserver.storage.encryption.config import EncryptionConfigError, load, parse
from controlplane.apiserver.storage.encryption.transformers import build
from tests.support.encryption import IDENTITY, cipher, configuration, key, kms, write

SOCKET = Path("/run/kms.sock")


def complaint(document: Any) -> str:
    with pytest.raises(EncryptionConfigError) as caught:
        parse(document if isinstance(document, bytes) else json.dumps(document).encode(), "config.yaml")
    text = str(caught.value)
    assert text.startswith("error while parsing file: ")
    return text.removeprefix("error while parsing file: ")


def gcm(**changes: Any) -> dict[str, Any]:
    return {"aesgcm": {"keys": [{**key("one"), **changes}]}}


def plugin(**changes: Any) -> dict[str, Any]:
    return {"kms": {**kms(SOCKET)["kms"], **changes}}


TOO_SHORT = "secret is not of the expected length, got 3, expected one of [16 24 32]"
PROVIDER = "resources[0].providers[0]"
TWO = "more than one provider specified in a single element, should split into different list elements"
NONE = "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity"
OVERLAP = "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they will be masked"
PROVIDERS = [
    pytest.param(gcm(secret="YWJj"), f'{PROVIDER}.aesgcm.keys[0].secret: Invalid value: "REDACTED": {TOO_SHORT}', id="short"),
    pytest.param(
        gcm(secret="a$"),
        f'{PROVIDER}.aesgcm.keys[0].secret: Invalid value: "REDACTED": secrets must be base64 encoded',
        id="base64",
    ),
    pytest.param(
        gcm(secret=""), f"{PROVIDER}.aesgcm.keys[0].secret: Required value: secret is a mandatory field for a key", id="no secret"
    ),
    pytest.param(
        gcm(name=""), f"{PROVIDER}.aesgcm.keys[0].name: Required value: name is a mandatory field for a key", id="no name"
    ),
    pytest.param(
        {"aescbc": {"keys": []}}, f"{PROVIDER}.aescbc.keys: Required value: at least one keys is required", id="no keys"
    ),
    pytest.param({**gcm(), "identity": {}}, f'{PROVIDER}: Invalid value: "aesgcm, identity": {TWO}', id="two in one"),
    pytest.param({"identity": None}, f'{PROVIDER}: Invalid value: "": {NONE}', id="none"),
    pytest.param(
        plugin(endpoint="tcp://1"),
        f'{PROVIDER}.kms.endpoint: Invalid value: "tcp://1": unsupported scheme "tcp" for KMS provider, only unix is supported',
        id="kms by tcp",
    ),
    pytest.param(
        plugin(timeout="0s"), f"{PROVIDER}.kms.timeout: Invalid value: 0s: timeout should be a positive value", id="kms timeout"
    ),
    pytest.param(
        plugin(cachesize=10), f"{PROVIDER}.kms.cachesize: Invalid value: 10: cachesize is not supported in v2", id="cache"
    ),
    pytest.param(
        plugin(name="a:b"),
        f"{PROVIDER}.kms.name: Invalid value: \"a:b\": invalid KMS provider name a:b, must not contain ':'",
        id="kms name",
    ),
]
RESOURCES = [
    (["Secrets"], '[0]: Invalid value: "Secrets": resource name should not contain capital letters'),
    (
        ["*"],
        "[0]: Invalid value: \"*\": use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources",
    ),
    (["pods.*"], '[0]: Invalid value: "pods.*": encrypting the same resource across groups is not supported'),
    (["secrets", "secrets"], ': Invalid value: ["secrets","secrets"]: the same resource cannot be specified multiple times'),
    (["secrets", "*."], f': Invalid value: ["secrets","*."]: {OVERLAP}'),
    (["*.apps", "*.*"], f': Invalid value: ["*.apps","*.*"]: {OVERLAP}'),
    (["apiserveripinfo"], '[0]: Invalid value: "apiserveripinfo": resources which do not have REST API/s cannot be encrypted'),
    ([], ": Required value: at least one resources[0].resources is required"),
]


@pytest.mark.parametrize(("provider", "words"), PROVIDERS)
def test_wrong_providers_are_refused_in_upstreams_words(provider: Any, words: str) -> None:
    assert complaint(configuration(provider)) == words


@pytest.mark.parametrize(("resources", "words"), RESOURCES, ids=str)
def test_wrong_resources_are_refused_in_upstreams_words(resources: list[str], words: str) -> None:
    assert complaint(configuration(IDENTITY, resources=resources)) == f"resources[0].resources{words}"


def test_several_complaints_come_together() -> None:
    assert complaint(configuration(gcm(name="", secret=""))).count("mandatory field") == 2


def test_version_one_of_kms_is_refused() -> None:
    for version in ("v1", ""):
        assert "KMSv1 is deprecated" in complaint(configuration(plugin(apiVersion=version)))
    assert "only v1 and v2 are supported" in complaint(configuration(plugin(apiVersion="v3")))


def test_plugins_of_one_name_would_share_a_prefix() -> None:
    assert "duplicate KMS provider name plugin" in complaint(configuration(plugin(), plugin()))


def test_a_rule_behind_a_wildcard_is_refused() -> None:
    document = configuration(IDENTITY, resources=["*.*"])
    document["resources"] += configuration(IDENTITY)["resources"]
    assert 'resource "secrets" is masked by earlier rule "*.*"' in complaint(document)


def test_files_that_are_no_configuration_are_refused(tmp_path: Path) -> None:
    assert "Object 'Kind' is missing" in complaint(b"{}")
    assert "not YAML in line 1" in complaint(b"{secret: abc")
    assert 'no kind "Secret" is registered for version "v1"' in complaint({"apiVersion": "v1", "kind": "Secret"})
    assert 'strict decoding error: unknown field "resources[0].provider"' in complaint(
        {**configuration(IDENTITY), "resources": [{"provider": []}]}
    )
    assert complaint({**configuration(), "resources": []}) == "resources: Required value: at least one resources is required"
    (tmp_path / "empty").touch()
    for name, words in (("missing", "No such file"), ("empty", "is empty")):
        with pytest.raises(EncryptionConfigError, match=words):
            load(tmp_path / name)


def test_no_complaint_shows_a_key() -> None:
    held = key("one")["secret"]
    for document in (configuration(gcm(secret=held[:-4])), f'resources: [{{"secret": "{held}"'.encode()):
        assert held[:20] not in complaint(document)
    assert held not in repr(parse(json.dumps(configuration(gcm())).encode(), "x"))


async def test_the_most_particular_rule_counts(tmp_path: Path) -> None:
    document = configuration(cipher("aesgcm", "one"), resources=["secrets"])
    for kind, resources in (("aescbc", ["*."]), ("secretbox", ["*.apps"]), ("aesgcm", ["*.*"])):
        document["resources"] += configuration(cipher(kind, "two"), resources=resources)["resources"]
    made = build(parse(json.dumps(document).encode(), "x"), FakeClock())
    found = {}
    for resource in ("secrets", "pods", "deployments.apps", "jobs.batch"):
        transformer = made.of(resource)
        assert transformer is not None
        found[resource] = (await transformer.to_storage(b"{}", b"k")).split(b":")[2:5]
    assert found == {
        "secrets": [b"aesgcm", b"v1", b"one"],
        "pods": [b"aescbc", b"v1", b"two"],
        "deployments.apps": [b"secretbox", b"v1", b"two"],
        "jobs.batch": [b"aesgcm", b"v1", b"two"],
    }
    only = build(load(write(tmp_path / "c", IDENTITY)), FakeClock())
    assert only.of("pods") is None


async def test_values_of_a_later_key_are_read_and_called_stale(tmp_path: Path) -> None:
    before = build(load(write(tmp_path / "a", cipher("secretbox", "old"))), FakeClock()).of("secrets")
    after = build(load(write(tmp_path / "b", cipher("secretbox", "new", "old"), IDENTITY)), FakeClock()).of("secrets")
    assert before is not None
    assert after is not None
    stored = await before.to_storage(b"{}", b"k")
    assert await after.from_storage(stored, b"k") == (b"{}", True)
    assert await after.from_storage(b"{}", b"k") == (b"{}", True)
    assert await after.from_storage(await after.to_storage(b"{}", b"k"), b"k") == (b"{}", False)
    with pytest.raises(Exception, match="no matching prefix found"):
        await before.from_storage(b"{}", b"k")
    with pytest.raises(Exception, match="no matching key was found for the provided Secretbox transformer"):
        await before.from_storage(await after.to_storage(b"{}", b"k"), b"k")


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text(max_size=8), st.sampled_from(["secrets", "*.*", "*.", "v2", "unix:///x"])
)
NAMES = st.sampled_from(
    [*("resources", "providers", "aesgcm", "aescbc", "secretbox", "identity", "kms", "keys", "name", "secret", "endpoint"), "x"]
)
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=25
)


@given(st.dictionaries(NAMES, ANYTHING, max_size=3), ANYTHING)
def test_whatever_a_file_says_it_is_understood_or_refused(document: dict[str, Any], resources: Any) -> None:
    """Never an error of the program itself, whatever the types."""
    whole = {**document, "apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": resources}
    with contextlib.suppress(EncryptionConfigError):
        parse(json.dumps(whole).encode(), "x")


@given(st.binary(max_size=200))
def test_whatever_bytes_a_file_holds_it_is_refused(data: bytes) -> None:
    with pytest.raises(EncryptionConfigError):
        parse(data, "x")
