"""Generated stubs; see ``scripts/cri_stubs.py``."""
