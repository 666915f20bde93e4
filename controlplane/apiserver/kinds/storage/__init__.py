"""The storage.k8s.io group."""
