"""Cluster DNS: names of Services and endpoints answered from memory, everything else forwarded."""
