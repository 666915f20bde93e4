"""Help that several controllers share; nothing here knows one controller."""
