"""Who has shown that he may use an image that is on this node: records of pulls, on disk, as upstream's kubelet keeps them.

``pull`` asks :class:`PullRecords` before a pod gets an image that is here already, and tells it of every pull. Without that, a
pod without credentials could run whatever somebody else's credentials have brought to its node (KubeletEnsureSecretPulledImages).
The files, below ``<root>/image_manager``, are upstream's: an ImagePullIntent while a pull goes on, an ImagePulledRecord after it.
"""

import asyncio
import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from apimachinery.times import format_time, parse_time
from component import logs
from component.clock import Clock
from node.kubelet.images.credentials import Account, Found, PullSecret, bare_name

VERSION = "kubelet.config.k8s.io/v1beta1"
_VERSIONS = (VERSION, "kubelet.config.k8s.io/v1alpha1")
_LEARNT = 100  # so many secrets of one image are remembered beside those that were pulled with
_log = logs.get(__name__)


class Image(Protocol):
    """What is asked of an image of the runtime."""

    @property
    def id(self) -> str: ...

    @property
    def repo_tags(self) -> Iterable[str]: ...

    @property
    def repo_digests(self) -> Iterable[str]: ...


@dataclass(frozen=True, slots=True)
class Access:
    """Who may use one image under one name."""

    everybody: bool = False
    secrets: tuple[PullSecret, ...] = ()
    accounts: tuple[Account, ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """That this kubelet has pulled an image. ``access`` is by the image's name, without tag and digest."""

    image_ref: str
    updated: str
    access: Mapping[str, Access] = field(default_factory=dict)


# Decisions, pure


def access_of(used: Found | None) -> Access:
    """What a successful pull has shown; None: it needed no credentials."""
    if used is None or (used.secret is None and used.account is None):
        return Access(everybody=True)
    if used.secret is not None:
        return Access(secrets=(used.secret,))
    return Access(accounts=(used.account,) if used.account is not None else ())


def merged(held: Access, new: Access) -> Access:
    """Both. Of one secret the newer hash counts, and of one hash the newer secret stays beside the others."""
    if held.everybody or new.everybody:
        return Access(everybody=True)
    secrets = {(each.uid, each.namespace, each.name): each for each in (*held.secrets, *new.secrets)}
    accounts = dict.fromkeys((*held.accounts, *new.accounts))
    return Access(
        secrets=tuple(sorted(secrets.values(), key=lambda each: (each.uid, each.namespace, each.name))),
        accounts=tuple(sorted(accounts, key=lambda each: (each.uid, each.namespace, each.name))),
    )


def verifies(policy: str, allowed: Sequence[str], image: str, *, pulled_here: bool) -> bool:
    """Whether ``imagePullCredentialsVerificationPolicy`` has credentials checked for an image that is here."""
    match policy:
        case "NeverVerify":
            return False
        case "AlwaysVerify":
            return True
        case "NeverVerifyAllowlistedImages":
            name = bare_name(image)
            return not any(name.startswith(each[:-1]) if each.endswith("/*") else name == each for each in allowed)
    return pulled_here  # NeverVerifyPreloadedImages


def check_pattern(pattern: str) -> None:
    """Of ``preloadedImagesVerificationAllowlist``. Raises ValueError in upstream's words."""
    if pattern != pattern.strip():
        raise ValueError(f"leading/trailing spaces are not allowed: {pattern}")
    bare = pattern.removesuffix("*") if pattern.endswith("/*") else pattern
    if not bare:
        raise ValueError(f"the supplied pattern is too short: {pattern}")
    if "*" in bare:
        raise ValueError(f"not a valid wildcard pattern, only patterns ending with '/*' are allowed: {pattern}")
    if pattern.endswith("/*"):
        if bare == "/":
            raise ValueError("at least registry hostname is required")
    elif bare != bare_name(bare):
        raise ValueError(f"neither tag nor digest is accepted in an image reference: {pattern}")


# Records


class PullRecords:
    """All records in memory, each change on disk before it counts. One per kubelet; :meth:`load` comes first."""

    def __init__(self, directory: Path, policy: str, allowed: Sequence[str], clock: Clock) -> None:
        self._pulling, self._pulled = directory / "pulling", directory / "pulled"
        self._policy = policy
        self._allowed = allowed
        self._clock = clock
        self._records: dict[str, Record] = {}
        self._intents: dict[str, int] = {}
        self._lock = asyncio.Lock()

    async def load(self, images: Iterable[Image]) -> None:
        """What a kubelet before this one has left. Pulls that it did not see the end of, and whose images are here, were this
        kubelet's: they are verified for everybody."""
        records, unfinished = await asyncio.to_thread(self._read)
        self._records = {record.image_ref: record for record in records}
        for image in images:
            for name in {*image.repo_tags, *image.repo_digests} & set(unfinished):
                await self._learn(name, image.id, None)
                await asyncio.to_thread(self._remove, self._pulling, name)

    def must_pull(self, image: str, image_ref: str, credentials: Sequence[Found]) -> bool:
        """Whether a pod with these credentials must pull an image that is here, as nothing says that it may use it."""
        record = self._records.get(image_ref)
        pulled_here = record is not None or image in self._intents
        if not verifies(self._policy, self._allowed, image, pulled_here=pulled_here):
            return False
        access = record.access.get(bare_name(image)) if record is not None else None
        if access is None:
            return True
        return not (access.everybody or _shares(access, credentials))

    async def note_use(self, image: str, image_ref: str, credentials: Sequence[Found]) -> None:
        """A pod has used an image by a secret whose content or name is new: it counts from now on."""
        record = self._records.get(image_ref)
        access = record.access.get(bare_name(image)) if record is not None else None
        if access is None or access.everybody or len(access.secrets) >= _LEARNT:
            return
        known = set(access.secrets)
        for found in credentials:
            if found.secret is not None and found.secret not in known and _shares(access, [found]):
                await self._learn(image, image_ref, Access(secrets=(found.secret,)))

    async def pulling(self, image: str) -> None:
        """A pull is about to begin. Raises OSError: then it must not."""
        async with self._lock:
            body = {"kind": "ImagePullIntent", "apiVersion": VERSION, "image": image}
            await asyncio.to_thread(_write, self._pulling, image, body)
            self._intents[image] = self._intents.get(image, 0) + 1

    async def failed(self, image: str) -> None:
        await self._ended(image)

    async def pulled(self, image: str, image_ref: str, used: Found | None) -> None:
        """A pull has succeeded, with ``used`` or, if that is None, with nothing. Never raises: without a record the intent stays,
        so that the image counts as pulled all the same."""
        try:
            await self._learn(image, image_ref, access_of(used))
        except OSError as error:
            _log.error("Cannot write the record of a pull", image=image, err=error)
            return
        await self._ended(image)

    async def _ended(self, image: str) -> None:
        async with self._lock:
            left = self._intents.get(image, 1) - 1
            if left > 0:
                self._intents[image] = left
                return
            self._intents.pop(image, None)
            await asyncio.to_thread(self._remove, self._pulling, image)

    async def _learn(self, image: str, image_ref: str, access: Access | None) -> None:
        async with self._lock:
            held, name = self._records.get(image_ref), bare_name(image)
            new = held or Record(image_ref, "")
            if access is not None:
                before = new.access.get(name)
                new = replace(new, access={**new.access, name: merged(before, access) if before is not None else access})
            if new == held:
                return
            new = replace(new, updated=format_time(self._clock.now()))
            await asyncio.to_thread(_write, self._pulled, image_ref, _encode(new))
            self._records[image_ref] = new

    async def prune(self, present: Iterable[str], began: str) -> None:
        """Forget images that are gone; what was recorded after ``began`` may be newer than the list."""
        kept = set(present)
        for image_ref, record in list(self._records.items()):
            if image_ref not in kept and record.updated < began:
                async with self._lock:
                    del self._records[image_ref]
                    await asyncio.to_thread(self._remove, self._pulled, image_ref)

    def _remove(self, directory: Path, key: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            (directory / _file_name(key)).unlink()

    def _read(self) -> tuple[list[Record], list[str]]:
        records: list[Record] = []
        intents: list[str] = []
        for directory in (self._pulled, self._pulling):
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            for entry in sorted(directory.iterdir()):
                if not entry.name.startswith("sha256-"):
                    entry.unlink(missing_ok=True)  # one that was being written
                    continue
                try:
                    document = json.loads(entry.read_text())
                    if document.get("apiVersion") not in _VERSIONS:
                        raise ValueError(f"apiVersion {document.get('apiVersion')!r}")
                    if directory is self._pulled:
                        records.append(_decode(document))
                    else:
                        intents.append(str(document["image"]))
                except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
                    _log.error("Cannot use the record of a pull", file=str(entry), err=error)
        return records, intents


def _shares(access: Access, credentials: Sequence[Found]) -> bool:
    """Whether one of the credentials is one that has worked: the same content, the same secret, or the same account."""
    hashes = {each.hash for each in access.secrets if each.hash}
    known = {(each.uid, each.namespace, each.name) for each in access.secrets}
    for found in credentials:
        if (secret := found.secret) is not None and (
            secret.hash in hashes or (secret.uid, secret.namespace, secret.name) in known
        ):
            return True
        if found.account is not None and found.account in access.accounts:
            return True
    return False


def _file_name(key: str) -> str:
    return f"sha256-{hashlib.sha256(key.encode()).hexdigest()}"


def _write(directory: Path, key: str, body: Mapping[str, Any]) -> None:
    """Whole or not at all."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = directory / _file_name(key)
    fresh = path.with_name(f".{path.name}.tmp")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(body, file, separators=(",", ":"))
    os.replace(fresh, path)


def _encode(record: Record) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for name, access in record.access.items():
        entry: dict[str, Any] = {}
        if access.everybody:
            entry["nodePodsAccessible"] = True
        if access.secrets:
            entry["kubernetesSecrets"] = [
                {"uid": each.uid, "namespace": each.namespace, "name": each.name, "credentialHash": each.hash}
                for each in access.secrets
            ]
        if access.accounts:
            entry["kubernetesServiceAccounts"] = [
                {"uid": each.uid, "namespace": each.namespace, "name": each.name} for each in access.accounts
            ]
        mapping[name] = entry
    head = {"kind": "ImagePulledRecord", "apiVersion": VERSION, "lastUpdatedTime": record.updated}
    return {**head, "imageRef": record.image_ref, "credentialMapping": mapping}


def _decode(document: Mapping[str, Any]) -> Record:
    access = {}
    for name, entry in (document.get("credentialMapping") or {}).items():
        secrets = entry.get("kubernetesSecrets") or ()
        access[str(name)] = Access(
            bool(entry.get("nodePodsAccessible")),
            tuple(
                PullSecret(str(each["uid"]), str(each["namespace"]), str(each["name"]), str(each.get("credentialHash") or ""))
                for each in secrets
            ),
            tuple(
                Account(str(each["uid"]), str(each["namespace"]), str(each["name"]))
                for each in entry.get("kubernetesServiceAccounts") or ()
            ),
        )
    updated = str(document.get("lastUpdatedTime") or "")
    parse_time(updated)
    return Record(str(document["imageRef"]), updated, access)
