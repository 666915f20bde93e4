"""horizontal-pod-autoscaler: replicas that follow metrics.

``controller`` reads a target's scale (``scale``) and asks ``evaluation`` for the size that each metric wants, which reads figures
by ``figures`` and pods' states by ``pods`` and computes with ``calculator``; ``behavior`` bounds how fast the size may follow.
``calculator``, ``pods`` and ``behavior`` are pure. Rules and texts are those of upstream's ``pkg/controller/podautoscaler``.
"""
