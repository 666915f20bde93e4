"""Who did what, when: one JSON line a request, with microsecond times (``pybernetes trace`` reads them)."""
