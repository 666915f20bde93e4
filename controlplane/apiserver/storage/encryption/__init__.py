"""Values encrypted at rest, between ``ObjectStore`` and the backend that keeps them. ``backend`` is where to start reading."""
