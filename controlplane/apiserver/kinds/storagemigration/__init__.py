"""The storagemigration.k8s.io group."""
