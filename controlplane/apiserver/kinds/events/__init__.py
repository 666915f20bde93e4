"""The events.k8s.io group."""
