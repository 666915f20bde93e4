"""The forms in which other API servers have stored objects, and the one in which this one does."""
