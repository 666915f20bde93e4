"""Bytes, keys and revisions: what stands below the registry. interface.py holds the contracts."""
