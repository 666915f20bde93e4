"""The ipvs backend: ``render`` says what one port needs, ``state`` what all do, ``difference`` by which calls; ``backend`` makes
them. ``rules`` are those of iptables."""

from netproxy.backends.ipvs.backend import IPVSBackend, Kernel

__all__ = ["IPVSBackend", "Kernel"]
