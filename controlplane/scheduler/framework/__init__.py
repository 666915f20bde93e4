"""The contract between the scheduling cycle and its plugins."""
