"""Pods: the strategy, and in modules of their own defaults, validation, columns and subresources."""

from controlplane.apiserver.kinds.core.pod.strategy import PodStrategy

__all__ = ["PodStrategy"]
