"""The cluster's signing key: certificates that answer requests, by upstream's ``PermissiveSigningPolicy``.

Used by ``csr_signing``. Certificate and key are read again when their files change; a pair that does not fit together, as
while somebody is replacing it, leaves the last good one in use.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from component import logs
from component.x509 import KeyPair, is_pair

if TYPE_CHECKING:
    from cryptography import x509

_log = logs.get(__name__)
BACKDATE = timedelta(minutes=5)
SHORT = timedelta(hours=8)
"""A certificate that lives no longer than this keeps the whole time asked for: backdating does not shorten it."""
LEAST = timedelta(minutes=10)

_KEY_USAGES = {
    "signing": "digital_signature",
    "digital signature": "digital_signature",
    "content commitment": "content_commitment",
    "key encipherment": "key_encipherment",
    "key agreement": "key_agreement",
    "data encipherment": "data_encipherment",
    "cert sign": "key_cert_sign",
    "crl sign": "crl_sign",
    "encipher only": "encipher_only",
    "decipher only": "decipher_only",
}
_EXTENDED_USAGES = {
    "any": "2.5.29.37.0",
    "server auth": "1.3.6.1.5.5.7.3.1",
    "client auth": "1.3.6.1.5.5.7.3.2",
    "code signing": "1.3.6.1.5.5.7.3.3",
    "email protection": "1.3.6.1.5.5.7.3.4",
    "s/mime": "1.3.6.1.5.5.7.3.4",
    "ipsec end system": "1.3.6.1.5.5.7.3.5",
    "ipsec tunnel": "1.3.6.1.5.5.7.3.6",
    "ipsec user": "1.3.6.1.5.5.7.3.7",
    "timestamping": "1.3.6.1.5.5.7.3.8",
    "ocsp signing": "1.3.6.1.5.5.7.3.9",
    "microsoft sgc": "1.3.6.1.4.1.311.10.3.3",
    "netscape sgc": "2.16.840.1.113730.4.1",
}


Stamps = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Validity:
    begin: datetime
    end: datetime


def granted(asked: int | None, most: timedelta) -> timedelta:
    """How long a certificate lives of which ``asked`` seconds were wished: never more than ``most``, never under ten minutes."""
    if asked is None:
        return most
    wish = timedelta(seconds=asked)
    return most if wish > most else max(wish, LEAST)


def validity(now: datetime, lifetime: timedelta, issuer_end: datetime) -> Validity:
    """Raises ValueError when the issuer itself has expired."""
    if now >= issuer_end:
        raise ValueError(f"the signer has expired: NotAfter={issuer_end:%Y-%m-%dT%H:%M:%SZ}")
    end = now + lifetime if lifetime < SHORT else now + lifetime - BACKDATE
    return Validity(now - BACKDATE, min(end, issuer_end))


def check_usages(usages: Sequence[str]) -> None:
    """Raises ValueError for usages that certificates do not have."""
    unknown = [usage for usage in usages if usage not in _KEY_USAGES and usage not in _EXTENDED_USAGES]
    if unknown:
        raise ValueError(f"unrecognized usage values: {unknown}")


class CertificateAuthority:
    """One signer's certificate and key. Raises OSError or ValueError, naming the file, for files that cannot be it.

    Whether they belong together is asked at the first signature: only then is the library needed that can tell.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        self._paths = (certificate, key)
        for path, word in ((certificate, b"CERTIFICATE-----"), (key, b"PRIVATE KEY-----")):
            if word not in path.read_bytes():
                raise ValueError(f"{path} holds no {word.decode().rstrip('-').lower()} in PEM form")
        self._stamps: Stamps = ()
        self._pair: KeyPair | None = None

    def _current_stamps(self) -> Stamps:
        return tuple((found.st_mtime_ns, found.st_ino) for found in (path.stat() for path in self._paths))

    def pair(self) -> KeyPair:
        """As the files have it now. Raises OSError or ValueError when they have never been a pair."""
        try:
            stamps = self._current_stamps()
            if stamps != self._stamps:
                self._pair = self._read()
                self._stamps = stamps
        except (OSError, ValueError) as error:
            if self._pair is None:
                raise
            _log.warning("The signing certificate changed and cannot be used yet", err=error)
        assert self._pair is not None
        return self._pair

    def _read(self) -> KeyPair:
        pair = KeyPair.load(*self._paths)
        if not is_pair(pair):
            raise ValueError(f"{self._paths[1]} is not the key of the certificate in {self._paths[0]}")
        return pair

    def sign(self, request: bytes, usages: Sequence[str], lifetime: timedelta, now: datetime) -> bytes:
        """The certificate, PEM. Raises ValueError for a request that cannot be read or is not signed by its own key."""
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization

        check_usages(usages)
        pair = self.pair()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            asked = x509.load_pem_x509_csr(request)
            issuer = x509.load_pem_x509_certificate(pair.certificate)
            if not asked.is_signature_valid:
                raise ValueError("unable to verify certificate request signature")
            within = validity(now, lifetime, issuer.not_valid_after_utc)
            key: Any = serialization.load_pem_private_key(pair.key, None)
            builder = (
                x509.CertificateBuilder()
                .subject_name(asked.subject)
                .issuer_name(issuer.subject)
                .public_key(asked.public_key())
                .serial_number(x509.random_serial_number())
                .not_valid_before(within.begin)
                .not_valid_after(within.end)
            )
            for value, critical in _extensions(asked, issuer, usages):
                builder = builder.add_extension(value, critical=critical)
            signed = builder.sign(key, _digest(key))
        return signed.public_bytes(serialization.Encoding.PEM)


def _digest(key: Any) -> Any:
    """Ed25519 has its own."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ed448, ed25519

    return None if isinstance(key, ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey) else hashes.SHA256()


def _extensions(
    asked: "x509.CertificateSigningRequest", issuer: "x509.Certificate", usages: Sequence[str]
) -> "list[tuple[x509.ExtensionType, bool]]":
    """Of what a request asks for only its names are taken over: whether it is an authority is not for it to say."""
    from cryptography import x509

    found: list[tuple[x509.ExtensionType, bool]] = []
    wanted = {_KEY_USAGES[usage] for usage in usages if usage in _KEY_USAGES}
    if wanted:
        flags = {name: name in wanted for name in set(_KEY_USAGES.values())}
        if not flags["key_agreement"]:
            flags["encipher_only"] = flags["decipher_only"] = False
        found.append((x509.KeyUsage(**flags), True))
    purposes = dict.fromkeys(_EXTENDED_USAGES[usage] for usage in sorted(usages) if usage in _EXTENDED_USAGES)
    if purposes:
        found.append((x509.ExtendedKeyUsage([x509.ObjectIdentifier(each) for each in purposes]), False))
    found.append((x509.BasicConstraints(ca=False, path_length=None), True))
    found.append((_authority_key(issuer), False))
    names = _names(asked)
    if names:
        found.append((x509.SubjectAlternativeName(names), not list(asked.subject)))
    return found


def _authority_key(issuer: "x509.Certificate") -> "x509.AuthorityKeyIdentifier":
    from cryptography import x509

    try:
        held = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key())  # type: ignore[arg-type]
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(held)


def _names(asked: "x509.CertificateSigningRequest") -> "list[x509.GeneralName]":
    from cryptography import x509

    known = (x509.DNSName, x509.RFC822Name, x509.IPAddress, x509.UniformResourceIdentifier)
    try:
        held = asked.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [name for name in held if isinstance(name, known)]
