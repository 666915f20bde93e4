"""Plumbing shared by every daemon: flags, logs, metrics, serving, clocks, tasks. It knows no Kubernetes kind."""
