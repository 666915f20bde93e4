"""The node.k8s.io group."""
