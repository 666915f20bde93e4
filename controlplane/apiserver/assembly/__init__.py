"""Puts the API server together from a Config: storage, identity, resources, paths, listener. ``__main__`` and tests use it."""
