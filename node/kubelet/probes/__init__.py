"""Liveness, readiness and startup probes: a worker per probe of a running container, results by container id."""
