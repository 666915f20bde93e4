"""The nftables backend: ``render`` writes one port's chains and elements, ``base`` what every node has, ``backend`` finds the
difference."""

from netproxy.backends.nftables.backend import NFTablesBackend

__all__ = ["NFTablesBackend"]
