"""Service account keys: PEM files in, PyJWT-ready keys with upstream's key ids out."""

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey
PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}


@dataclass(frozen=True, slots=True)
class VerificationKey:
    key_id: str
    algorithm: str
    key: PublicKey


def load_public_keys(path: Path) -> list[VerificationKey]:
    """Every public key in a PEM file; private keys and certificates count as theirs. Raises ValueError naming the file."""
    found: list[VerificationKey] = []
    for block in _pem_blocks(path.read_bytes()):
        if b"PRIVATE KEY" in block:
            key: Any = serialization.load_pem_private_key(block, None).public_key()
        elif b"BEGIN CERTIFICATE" in block:
            from cryptography import x509

            key = x509.load_pem_x509_certificate(block).public_key()
        elif b"PUBLIC KEY" in block:
            key = serialization.load_pem_public_key(block)
        else:
            continue
        found.append(verification_key(key))
    if not found:
        raise ValueError(f"{path} holds no public or private key in PEM form")
    return found


def load_private_key(path: Path) -> PrivateKey:
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    if not isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):
        raise ValueError(f"{path}: service account tokens are signed with RSA or ECDSA keys")
    return key


def verification_key(key: Any) -> VerificationKey:
    """The key id is the unpadded base64url SHA-256 of the DER public key, as upstream's."""
    if isinstance(key, ec.EllipticCurvePublicKey):
        algorithm = _CURVES[key.curve.name]
    elif isinstance(key, rsa.RSAPublicKey):
        algorithm = "RS256"
    else:
        raise ValueError("service account tokens are verified with RSA or ECDSA keys")
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    key_id = base64.urlsafe_b64encode(hashlib.sha256(der).digest()).rstrip(b"=").decode()
    return VerificationKey(key_id, algorithm, key)


def jwks(keys: list[VerificationKey]) -> dict[str, Any]:
    """The JSON Web Key Set that ``/openid/v1/jwks`` serves."""
    from jwt.algorithms import ECAlgorithm, RSAAlgorithm

    listed = []
    for known in keys:
        if isinstance(known.key, rsa.RSAPublicKey):
            data: dict[str, Any] = RSAAlgorithm.to_jwk(known.key, as_dict=True)
        else:
            data = ECAlgorithm.to_jwk(known.key, as_dict=True)
        data.pop("key_ops", None)
        listed.append({"use": "sig", "kid": known.key_id, "alg": known.algorithm, **data})
    return {"keys": listed}


def _pem_blocks(data: bytes) -> list[bytes]:
    blocks, current = [], []
    for line in data.splitlines():
        if line.startswith(b"-----BEGIN "):
            current = [line]
        elif current:
            current.append(line)
            if line.startswith(b"-----END "):
                blocks.append(b"\n".join(current) + b"\n")
                current = []
    return blocks
