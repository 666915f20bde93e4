"""The kubelet's HTTPS server on port 10250: logs, exec, attach, port-forward, pods, metrics. See ``routes.py``."""
