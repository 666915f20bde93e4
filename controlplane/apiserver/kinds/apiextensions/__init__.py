"""The apiextensions.k8s.io group."""
