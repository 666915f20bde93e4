"""Why an object is as it is: pure functions from a snapshot of the cluster to a tree of causes. Called by ``cli.why``.

``reading`` fills a ``Snapshot`` by a few parallel reads of any cluster's API; ``catalog`` picks the explainer of the object's
kind; ``rendering`` shows the tree. Only ``reading`` does I/O.
"""
