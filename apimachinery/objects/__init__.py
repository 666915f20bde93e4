"""Pure questions about objects that several daemons ask, so that they agree on the answers."""
