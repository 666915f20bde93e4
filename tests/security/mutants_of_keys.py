"""As ``mutants``: servers and kubelets without one of the defences around keys, certificates and what is stored."""

from typing import Any

from component import tls, x509
from component.client_certificates import Authorities
from component.dynamic_certificates import CaBundle
from controlplane.apiserver.storage.encryption.aes import Gcm
from controlplane.apiserver.storage.encryption.backend import EncryptedBackend
from node.kubelet.certificate import bootstrap
from node.kubelet.server import auth
from tests.security.mutants import Mutant, Patch


def _stores_plainly(patch: Patch) -> None:
    async def closed(self: EncryptedBackend, operation: Any) -> Any:
        return operation

    patch.setattr(EncryptedBackend, "_closed", closed)


def _unbound(patch: Patch) -> None:
    """A value is not tied to its key in storage."""
    seal, opened = Gcm.seal, Gcm.open
    patch.setattr(Gcm, "seal", lambda self, data, key: seal(self, data, b""))
    patch.setattr(Gcm, "open", lambda self, data, key: opened(self, data, b""))


def _believes_any_certificate(patch: Patch) -> None:
    patch.setattr(Authorities, "verify", lambda self, certificate, now, others=(): None)


def _never_looks_again(patch: Patch) -> None:
    patch.setattr(CaBundle, "reload_if_changed", lambda self: False)


def _forgets_its_key(patch: Patch) -> None:
    patch.setattr(bootstrap, "_key", lambda folder: x509.new_key())


MUTANTS = (
    Mutant(
        "Secrets in the database",
        "tests/integration/apiserver/test_encryption.py::test_no_byte_of_a_secret_is_in_the_file[aesgcm]",
        _stores_plainly,
    ),
    Mutant(
        "a stored value moved",
        "tests/contract/test_transformers.py::test_a_value_moved_to_another_key_is_refused[aesgcm-32]",
        _unbound,
    ),
    Mutant(
        "bad client certificate",
        "tests/unit/node/kubelet/server/test_door.py::test_certificates_and_tokens[foreign--401]",
        _believes_any_certificate,
    ),
    Mutant(
        "an authority that is withdrawn",
        "tests/integration/apiserver/test_certificates.py::test_client_authorities_come_and_go_without_a_restart",
        _never_looks_again,
    ),
    Mutant(
        "kubelet's fine-grained rights",
        "tests/unit/node/kubelet/server/test_door.py::test_the_right_that_a_path_needs",
        lambda patch: patch.setitem(auth._OWN, "logs", "metrics"),
    ),
    Mutant(
        "a node's first certificate",
        "tests/integration/daemons/test_join.py::test_a_kill_before_the_answer_asks_no_second_time",
        _forgets_its_key,
    ),
    Mutant(
        "old TLS",
        "tests/unit/component/test_dynamic_certificates.py::test_old_clients_are_refused_where_only_tls_1_3_is_offered",
        lambda patch: patch.setattr(tls, "profile", lambda minimum="", suites=(): tls.DEFAULT_PROFILE),
    ),
)
