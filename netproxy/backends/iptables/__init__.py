"""The iptables backend: ``render`` writes one port's rules, ``base`` what every node has, ``backend`` finds the difference."""

from netproxy.backends.iptables.backend import IPTablesBackend

__all__ = ["IPTablesBackend"]
