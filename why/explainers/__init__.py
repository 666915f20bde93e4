"""One module per kind: ``explain(snapshot, obj)`` gives an Explanation. Pods, the longest story, have a module per chapter."""
