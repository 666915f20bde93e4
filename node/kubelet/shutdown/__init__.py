"""Graceful node shutdown: pods end before the machine does. ``plan`` orders them, ``logind`` holds the machine back, ``manager``
acts."""
