"""The four ways to change part of an object: JSON patch, merge patch, strategic merge patch, and server-side apply.

All are pure: they return a new object and leave their arguments alone. Called by ``endpoints.patch`` alone; ``apply`` also
by every write, which records who owns which field.
"""
