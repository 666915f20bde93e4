"""KMS v2 over a scripted plugin, on virtual time: one seed for many writes, rotation, and how long a sick plugin is survived."""

from dataclasses import dataclass, field

import pytest

from component.clock import FakeClock
from controlplane.apiserver.storage.encryption.aes import Gcm
from controlplane.apiserver.storage.encryption.api import kms_v2_pb2
from controlplane.apiserver.storage.encryption.interface import KeyUnavailableError, TransformError
from controlplane.apiserver.storage.encryption.kms import Kms
from controlplane.apiserver.storage.encryption.kms_service import Encrypted, Status

KEY = b"/registry/secrets/default/one"


@dataclass
class Scripted:
    """A plugin that "encrypts" by turning bytes around."""

    key_id: str = "1"
    version: str = "v2"
    healthz: str = "ok"
    encrypts_as: str = ""  # another key id than Status tells
    annotations: dict[str, bytes] = field(default_factory=dict)
    down: bool = False
    calls: list[str] = field(default_factory=list)

    def _answer(self, call: str) -> None:
        self.calls.append(call)
        if self.down:
            raise KeyUnavailableError("rpc error: code = Unavailable desc = down")

    async def status(self) -> Status:
        self._answer("status")
        return Status(self.version, self.healthz, self.key_id)

    async def encrypt(self, uid: str, plaintext: bytes) -> Encrypted:
        self._answer("encrypt")
        return Encrypted(plaintext[::-1], self.encrypts_as or self.key_id, self.annotations)

    async def decrypt(self, uid: str, encrypted: Encrypted) -> bytes:
        self._answer("decrypt")
        return encrypted.ciphertext[::-1]

    async def close(self) -> None:
        """Nothing to close."""


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def plugin() -> Scripted:
    return Scripted()


@pytest.fixture
def kms(plugin: Scripted, clock: FakeClock) -> Kms:
    return Kms("plugin", plugin, clock)


async def test_many_writes_cost_one_call(kms: Kms, plugin: Scripted) -> None:
    await kms.check()
    stored = [await kms.to_storage(b"%d" % number, KEY) for number in range(100)]
    assert [await kms.from_storage(one, KEY) for one in stored] == [(b"%d" % number, False) for number in range(100)]
    assert plugin.calls == ["status", "encrypt"]
    sources = {kms_v2_pb2.EncryptedObject.FromString(one).encryptedDEKSource for one in stored}
    assert len(sources) == 1


async def test_another_key_id_makes_a_new_seed_and_old_values_stale(kms: Kms, plugin: Scripted, clock: FakeClock) -> None:
    await kms.check()
    old = await kms.to_storage(b"v", KEY)
    plugin.key_id = "2"
    assert await kms.from_storage(old, KEY) == (b"v", False)
    await clock.advance(61)
    await kms.look_after()
    assert await kms.from_storage(old, KEY) == (b"v", True)
    new = kms_v2_pb2.EncryptedObject.FromString(await kms.to_storage(b"v", KEY))
    assert new.keyID == "2"


async def test_a_restarted_server_asks_once_for_each_seed(kms: Kms, plugin: Scripted, clock: FakeClock) -> None:
    await kms.check()
    stored = [await kms.to_storage(b"v", KEY) for _ in range(10)]
    plugin.calls.clear()
    again = Kms("plugin", plugin, clock)
    await again.check()
    for one in stored:
        assert await again.from_storage(one, KEY) == (b"v", False)
    assert plugin.calls == ["status", "encrypt", "decrypt"]


async def test_reading_goes_on_and_writing_ends_three_minutes_after_the_last_answer(
    kms: Kms, plugin: Scripted, clock: FakeClock
) -> None:
    await kms.check()
    stored = await kms.to_storage(b"v", KEY)
    plugin.down = True
    for _ in range(17):
        await clock.advance(10)
        await kms.look_after()
    await kms.to_storage(b"v", KEY)
    await clock.advance(11)
    with pytest.raises(KeyUnavailableError, match="expired"):
        await kms.to_storage(b"v", KEY)
    assert await kms.from_storage(stored, KEY) == (b"v", False)
    plugin.down = False
    await clock.advance(10)
    await kms.look_after()
    await kms.to_storage(b"v", KEY)
    assert plugin.calls.count("encrypt") == 1, "the same key id needs no new seed"


async def test_a_sick_plugin_is_asked_every_ten_seconds_and_a_healthy_one_every_minute(
    kms: Kms, plugin: Scripted, clock: FakeClock
) -> None:
    await kms.check()
    for _ in range(12):
        await clock.advance(10)
        await kms.look_after()
    assert plugin.calls.count("status") == 3
    plugin.down = True
    plugin.calls.clear()
    for _ in range(12):
        await clock.advance(10)
        await kms.look_after()
    assert plugin.calls.count("status") == 7


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"healthz": "sealed"}, "got unexpected healthz status: sealed"),
        ({"version": "v1"}, "expected KMSv2 API version v2, got v1"),
        ({"key_id": ""}, 'got invalid KMSv2 KeyID hash "": keyID is empty'),
        ({"key_id": "k" * 1025}, "keyID is 1025 bytes, which exceeds the max size of 1024"),
        ({"encrypts_as": "2"}, "failed to rotate DEK"),
        ({"annotations": {"nodots": b""}}, "failed to validate annotations"),
        ({"annotations": {"a.b": b"x" * 40_000}}, "total size of annotations is 40003, which exceeds the max size of 32768"),
    ],
    ids=lambda value: str(value)[:30],
)
async def test_answers_that_upstream_refuses(plugin: Scripted, clock: FakeClock, changes: dict[str, object], words: str) -> None:
    for name, value in changes.items():
        setattr(plugin, name, value)
    with pytest.raises(KeyUnavailableError) as caught:
        await Kms("plugin", plugin, clock).check()
    assert str(caught.value).startswith("kmsv2 Provider plugin is not healthy, error: ")
    assert words in str(caught.value)


async def test_a_value_of_the_time_before_seeds_is_read_and_stale(kms: Kms) -> None:
    """Before Kubernetes 1.29 the key itself was stored, not a seed."""
    await kms.check()
    secret = b"d" * 32
    stored = kms_v2_pb2.EncryptedObject(
        encryptedData=await Gcm(secret).to_storage(b"v", KEY), keyID="1", encryptedDEKSource=secret[::-1]
    )
    assert await kms.from_storage(stored.SerializeToString(), KEY) == (b"v", True)


async def test_before_the_plugin_answered_nothing_is_read_or_written(kms: Kms, plugin: Scripted) -> None:
    plugin.down = True
    with pytest.raises(
        KeyUnavailableError, match="failed to perform status section of the healthz check for KMS Provider plugin"
    ):
        await kms.check()
    with pytest.raises(KeyUnavailableError):
        await kms.to_storage(b"v", KEY)
    with pytest.raises(TransformError):
        await kms.from_storage(b"\xff\xff", KEY)
