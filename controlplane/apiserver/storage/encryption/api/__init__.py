"""Wire types of KMS plugins; made from ``kms_v2.proto`` by ``scripts/cri_stubs.py``."""
