"""Which Kubernetes this is. Read by the API server's ``/version`` and by every daemon's metrics."""

MAJOR, MINOR = "1", "36"
GIT_VERSION = "v1.36.0+pybernetes"
