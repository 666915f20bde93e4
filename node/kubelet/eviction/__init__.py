"""Eviction: pods end before the node does. ``thresholds`` reads what is configured, ``signals`` what the node has left,
``decide`` says what follows, ``ranking`` who goes first, ``local_storage`` who wrote more than allowed; ``manager`` acts."""
