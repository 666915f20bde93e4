"""A single-node cluster in one folder, as ``up``, ``down``, ``status`` and the rest see it."""
