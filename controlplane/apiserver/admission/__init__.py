"""Admission: what may be changed or refused about a write after authorization. One plugin a file, the order in ``chain.py``."""
