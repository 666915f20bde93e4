"""``internal.apiserver.k8s.io``: what API servers tell one another."""
