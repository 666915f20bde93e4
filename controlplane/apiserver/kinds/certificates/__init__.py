"""The certificates.k8s.io group."""
