"""Streams over upgraded HTTP connections: exec, attach and port-forward. One home for API server, kubelet and cri.

``duplex.py`` is bytes over a transport; ``upgrade.py`` gets there from HTTP; ``spdy.py`` and ``websocket.py`` are the wire
formats without I/O, ``session.py`` and ``wsocket.py`` drive them; ``channels.py`` is the model above both, ``relay.py``
carries bytes from one connection to another.
"""
