"""What every Transformer promises (``storage/encryption/interface.py``), asked of each implementation."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from component.clock import RealClock
from controlplane.apiserver.storage.encryption.aes import Cbc, DerivedGcm, Gcm
from controlplane.apiserver.storage.encryption.identity import Identity
from controlplane.apiserver.storage.encryption.interface import Transformer, TransformError
from controlplane.apiserver.storage.encryption.kms import Kms
from controlplane.apiserver.storage.encryption.kms_service import GrpcService
from controlplane.apiserver.storage.encryption.prefix import Prefixed, PrefixTransformers
from controlplane.apiserver.storage.encryption.secretbox import Secretbox
from tests.support.kms_plugin import running_plugin

KEY = b"/registry/secrets/default/one"
SIMPLE = {
    "identity": Identity(),
    "aesgcm-16": Gcm(b"k" * 16),
    "aesgcm-32": Gcm(b"k" * 32),
    "aescbc": Cbc(b"k" * 32),
    "derived": DerivedGcm(b"s" * 32),
    "secretbox": Secretbox(b"k" * 32),
    "prefix": PrefixTransformers([Prefixed(b"k8s:enc:a:", Gcm(b"k" * 32)), Prefixed(b"", Identity())], "nothing fits"),
}
AUTHENTICATED_KEY = {"aesgcm-16", "aesgcm-32", "derived", "prefix", "kms"}
DAMAGE_IS_SEEN = AUTHENTICATED_KEY | {"secretbox"}


@pytest.fixture(params=[*SIMPLE, "kms"])
async def transformer(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Transformer]:
    if request.param in SIMPLE:
        yield SIMPLE[request.param]
        return
    async with running_plugin(tmp_path / "kms.sock") as plugin:
        service = GrpcService(f"unix://{plugin.socket}", 2.0)
        made = Kms("plugin", service, RealClock())
        await made.check()
        yield made
        await made.close()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return str(request.node.callspec.params["transformer"])


@pytest.mark.parametrize("value", [b"{}", b"x", b"sixteen bytes...", b"\x00" * 5_000], ids=["json", "one", "a block", "large"])
async def test_what_is_stored_comes_back(transformer: Transformer, value: bytes) -> None:
    stored = await transformer.to_storage(value, KEY)
    assert await transformer.from_storage(stored, KEY) == (value, False)


async def test_encrypted_values_show_nothing_and_are_never_the_same(transformer: Transformer, name: str) -> None:
    value = b"a value that must not be seen" * 3
    first, second = await transformer.to_storage(value, KEY), await transformer.to_storage(value, KEY)
    assert (first == second) is (name == "identity")
    assert (b"must not be seen" in first) is (name == "identity")


async def test_a_value_moved_to_another_key_is_refused(transformer: Transformer, name: str) -> None:
    """Who can write to the store must not be able to give a secret to another namespace."""
    stored = await transformer.to_storage(b"value", KEY)
    if name not in AUTHENTICATED_KEY:
        assert (await transformer.from_storage(stored, KEY + b"2"))[0] == b"value"
        return
    with pytest.raises(TransformError):
        await transformer.from_storage(stored, KEY + b"2")


async def test_damage_is_refused(transformer: Transformer, name: str) -> None:
    if name not in DAMAGE_IS_SEEN:
        return  # identity and CBC authenticate nothing, as upstream's
    stored = await transformer.to_storage(b"value", KEY)
    for damaged in (stored[:-1], stored[:-1] + bytes([stored[-1] ^ 1]), stored[:20]):
        with pytest.raises(TransformError):
            await transformer.from_storage(damaged, KEY)


async def test_complaints_hold_nothing_of_the_value(transformer: Transformer) -> None:
    with pytest.raises(TransformError) as caught:
        await transformer.from_storage(b"k8s:enc:secret", KEY)
    assert "secret" not in str(caught.value)
