"""The networking.k8s.io group."""
