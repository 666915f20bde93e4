"""The serving certificate of the kubelet's port when the cluster gives none: the one it was told, or one it signs itself."""

from datetime import timedelta
from pathlib import Path

from component import x509
from node.kubelet.config import KubeletConfig


def serving_files(config: KubeletConfig) -> tuple[Path, Path]:
    """(certificate, key). Makes a self-signed pair under the certificate directory if none was given. Blocks."""
    if config.tls_cert_file and config.tls_private_key_file:
        return config.tls_cert_file, config.tls_private_key_file
    folder = config.certificates
    certificate, key = folder / "kubelet.crt", folder / "kubelet.key"
    if not (certificate.exists() and key.exists()):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        authority = x509.new_ca(f"{config.node_name}-ca")
        addresses = [config.node_ip] if config.node_ip else []
        request = x509.Request(
            f"{config.node_name}", dns_names=[config.node_name], ip_addresses=addresses, lifetime=timedelta(days=365)
        )
        issued = x509.issue(authority, request)
        x509.KeyPair(issued.certificate + authority.certificate, issued.key).save(certificate, key)
    return certificate, key
