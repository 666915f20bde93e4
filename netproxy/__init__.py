"""The service proxy: makes Services answer on this node. Trackers > plan > backends > kernel; wired by ``__main__``."""
