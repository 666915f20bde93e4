"""Custom resources: what a CustomResourceDefinition makes the server answer. ``registration`` is the door."""
