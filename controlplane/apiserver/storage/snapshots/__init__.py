"""Snapshots of a cluster's objects: ``format`` is the file, ``sources`` read a store into it, ``targets`` fill a store from it.

``service`` puts them together for ``cli.snapshot``. One file serves both stores, so it is also how a cluster moves from
one to the other.
"""
